import { createSocket } from "node:dgram";
import { once } from "node:events";
import { networkInterfaces } from "node:os";

/** A public address that packets to the internet go to; nothing is sent there. The original asks for the same one. */
const farAddress = { host: "8.8.8.8", port: 53 } as const;

/**
 * The IPv4 address that this machine has towards others, as the original finds it: the one that packets to the internet would
 * come from; without such a route the first one that is not local to the machine. Undefined if there is none.
 */
export async function ownAddress(): Promise<string | undefined> {
  const socket = createSocket("udp4");
  try {
    socket.connect(farAddress.port, farAddress.host);
    await once(socket, "connect");
    return socket.address().address;
  } catch {
    const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
    const isFit = (text: string): boolean => !text.startsWith("169.254.");
    return all.find(
      ({ internal, family, address }) => !internal && family === "IPv4" && isFit(address),
    )?.address;
  } finally {
    socket.close();
  }
}
