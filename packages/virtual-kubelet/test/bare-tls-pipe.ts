import { spawn } from "node:child_process";
import { once } from "node:events";
import net, { type AddressInfo } from "node:net";
import type { Duplex, Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import tls from "node:tls";

/**
 * A TLS server that does what the kubelet API does, and nothing else: the floor that its streams are
 * compared with. The first byte of a connection says what: `e` runs the command that the rest of the
 * line is, between the connection's two directions; `f` connects to that port of loopback.
 */
export async function startBareTlsPipe(pair: {
  readonly certificate: string;
  readonly key: string;
}): Promise<number> {
  const options = { cert: pair.certificate, key: pair.key, allowHalfOpen: true };
  const server = tls.createServer(options, (socket) => {
    socket.on("error", () => {});
    socket.once("data", (line: Buffer) => {
      const text = line.toString().trim();
      if (text[0] === "f") {
        const far = net.connect(Number(text.slice(1)), "127.0.0.1");
        join(socket, far, far);
      } else {
        const [program = "", ...args] = text.slice(1).split(" ");
        const child = spawn(program, args, { stdio: ["pipe", "pipe", "ignore"] });
        join(socket, child.stdin, child.stdout);
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

function join(near: Duplex, to: Writable, from: Readable): void {
  pipeline(near, to).catch(() => {}); // a side that is gone ends the other
  pipeline(from, near).catch(() => {});
}
