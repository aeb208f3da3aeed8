import { once } from "node:events";
import { createServer } from "node:net";
import { portOf } from "@kip/base";

/** A TCP port of loopback that no program listens on now; another program may take it meanwhile. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const port = portOf(server);
  server.close();
  await once(server, "close");
  return port;
}
