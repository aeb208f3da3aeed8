import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { runCommand } from "@kip/base";
import { namespaceOf } from "../../src/network/namespace.ts";

/** A server of this process that says hello. */
export async function listen(
  address: string,
): Promise<AsyncDisposable & { readonly port: number }> {
  const server = createServer((_request, response) => response.end("hello"));
  server.listen(0, address);
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port, // it listens on TCP
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await Promise.resolve();
    },
  };
}

/** A computer that the host has routes to, with something that says hello on each of its addresses. */
export async function internet(
  name: string,
  addresses: readonly string[],
): Promise<
  AsyncDisposable & {
    readonly port: number;
    /** Gives the host one more address. */
    addHostAddress(address: string): Promise<void>;
  }
> {
  const port = 8080;
  const away = namespaceOf(name);
  await away.create();
  const cable = ["type", "veth", "peer", "name", "eth0", "netns", away.file];
  await runCommand("ip", ["link", "add", name, ...cable]);
  await runCommand("ip", ["link", "set", name, "up"]);
  await runCommand("ip", ["addr", "add", "192.0.2.253/32", "dev", name]);
  await away.run("ip", ["link", "set", "eth0", "up"]);
  for (const address of addresses) {
    await away.run("ip", ["addr", "add", `${address}/32`, "dev", "eth0"]);
    await runCommand("ip", ["route", "add", `${address}/32`, "dev", name, "src", "192.0.2.253"]);
  }
  await away.run("ip", ["route", "add", "default", "dev", "eth0"]);
  const script = `require("http").createServer((_, r) => r.end("hello")).listen(${port}, () => console.log("up"))`;
  const server = spawn("nsenter", [`--net=${away.file}`, process.execPath, "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(server.stdout, "data");
  return {
    port,
    addHostAddress: async (address) => {
      await runCommand("ip", ["addr", "add", `${address}/32`, "dev", name]);
    },
    [Symbol.asyncDispose]: async () => {
      server.kill("SIGKILL");
      await once(server, "close");
      await runCommand("ip", ["link", "delete", name]);
      await away.remove();
    },
  };
}
