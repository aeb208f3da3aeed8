import { createSocket } from "node:dgram";
import { once } from "node:events";
import { networkInterfaces } from "node:os";

/** A public address for finding the route to the internet. Nothing is sent to it. The original uses the same one. */
const farAddress = { host: "8.8.8.8", port: 53 } as const;

/**
 * This machine's IPv4 address, found as in the original: the source address of packets to the internet. Without such a route,
 * the first address that is not local to the machine. Undefined if there is none.
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
