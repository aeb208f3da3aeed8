import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { runCommand } from "@kip/base";
import { namespaceOf, type Namespace } from "../../src/network/namespace.ts";

/** A server in this process that answers "hello". */
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

/** A computer that the host has routes to, with a server on each of its addresses that answers "hello". */
export async function internet(
  name: string,
  addresses: readonly string[],
): Promise<
  AsyncDisposable & {
    readonly port: number;
    /** How many packets for a range it has received. */
    received(range: string): Promise<number>;
    /** Runs a program there. */
    readonly run: Namespace["run"];
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
  await away.run("nft", ["-f", "-"], counters);
  const program = [process.execPath, path.join(import.meta.dirname, "hello-server.ts"), `${port}`];
  const server = spawn("nsenter", [`--net=${away.file}`, ...program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(server.stdout, "data");
  return {
    port,
    run: async (...command) => await away.run(...command),
    received: async (range) => {
      const { stdout } = await away.run("nft", ["list", "chain", "ip", "seen", "arrive"]);
      const line = stdout.split("\n").find((each) => each.includes(range)) ?? "";
      return Number(/packets (\d+)/.exec(line)?.[1] ?? Number.NaN);
    },
    [Symbol.asyncDispose]: async () => {
      server.kill("SIGKILL");
      await once(server, "close");
      await runCommand("ip", ["link", "delete", name]);
      await away.remove();
    },
  };
}

/** The packets that a computer of {@link internet} counts. */
const counters = `table ip seen {
  chain arrive {
    type filter hook prerouting priority 0;
    ip daddr 10.96.0.0/16 counter
  }
}`;

/** Adds addresses to the host that `os.networkInterfaces()` leaves out. Disposing removes them. */
export async function hostAddresses(name: string): Promise<
  AsyncDisposable & {
    /** The added addresses, which are all the host's own. */
    readonly addresses: readonly string[];
    /** Adds another address, with its prefix length. */
    add(address: string): Promise<void>;
    /** Adds a local route for a prefix (AnyIP). */
    addLocalRoute(prefix: string): Promise<void>;
  }
> {
  const ip = async (...args: readonly string[]): Promise<void> =>
    void (await runCommand("ip", args));
  const routes: string[] = [];
  const addLocalRoute = async (prefix: string): Promise<void> => {
    await ip("route", "add", "local", prefix, "dev", "lo");
    routes.push(prefix);
  };
  // A bridge has no carrier while its ports are down, like docker0 without containers.
  await ip("link", "add", name, "type", "bridge");
  await ip("link", "add", `${name}p`, "type", "veth", "peer", "name", `${name}q`);
  await ip("link", "set", `${name}p`, "master", name);
  await ip("link", "set", name, "up");
  await ip("addr", "add", "192.0.2.129/28", "dev", name);
  await ip("addr", "add", "192.0.2.254/32", "dev", "lo");
  await addLocalRoute("192.0.2.160/28");
  return {
    addresses: ["192.0.2.129", "192.0.2.254", "192.0.2.161", "192.0.2.174"],
    add: async (address) => await ip("addr", "add", address, "dev", name),
    addLocalRoute,
    [Symbol.asyncDispose]: async () => {
      for (const prefix of routes) await ip("route", "delete", "local", prefix, "dev", "lo");
      await ip("addr", "delete", "192.0.2.254/32", "dev", "lo");
      await ip("link", "delete", `${name}p`);
      await ip("link", "delete", name);
    },
  };
}
