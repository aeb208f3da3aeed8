import { once } from "node:events";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { createServer } from "node:net";
import { isSystemError } from "@kip/base";
import { ControlPlaneError } from "../errors.ts";

/** A port that no program is listening on at the moment. */
export async function freePort(address: string): Promise<number> {
  return await listenOnce(0, address);
}

/**
 * Checks that a port is free.
 *
 * @param flag the flag for choosing another port, for the remedy
 * @throws {ControlPlaneError} `PORT_TAKEN` with facts `port, owner`, naming the program that uses it
 */
export async function requireFreePort(
  port: number,
  address: string,
  flag = "--port",
): Promise<void> {
  try {
    await listenOnce(port, address);
  } catch (error) {
    if (!isSystemError(error, "EADDRINUSE")) throw error;
    const owner = ownerOf(port);
    throw new ControlPlaneError("PORT_TAKEN", `Cannot listen at port ${port}: ${taken(owner)}`, {
      cause: error,
      remedy: `Choose another one with ${flag}, or stop that program`,
      facts: { port, owner },
    });
  }
}

interface PortOwner {
  readonly pid: number;
  readonly name: string;
}

function taken(owner: PortOwner | undefined): string {
  return owner
    ? `the program "${owner.name}" (process ${owner.pid}) already listens there`
    : "another program already listens there";
}

async function listenOnce(port: number, address: string): Promise<number> {
  const server = createServer();
  server.listen(port, address);
  await once(server, "listening");
  const bound = server.address();
  server.close();
  await once(server, "close");
  return typeof bound === "object" && bound !== null ? bound.port : port;
}

/**
 * The process that listens on a port, as far as this user can see it. Looks up the socket's inode, and then the process that
 * has it open.
 */
function ownerOf(port: number): PortOwner | undefined {
  try {
    const inodes = new Set(["/proc/net/tcp", "/proc/net/tcp6"].flatMap((f) => listeners(f, port)));
    for (const entry of readdirSync("/proc")) {
      if (/^\d+$/.test(entry) && hasSocket(entry, inodes))
        return { pid: Number(entry), name: readFileSync(`/proc/${entry}/comm`, "utf8").trim() };
    }
  } catch {
    // Without /proc, the message does not name the owner.
  }
  return undefined;
}

/** Inodes of sockets that listen on the port, from a table in the format of proc_net_tcp(5). */
function listeners(table: string, port: number): string[] {
  const hexPort = port.toString(16).toUpperCase().padStart(4, "0");
  return readFileSync(table, "utf8")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[1]?.endsWith(`:${hexPort}`) === true && fields[3] === "0A")
    .map((fields) => `socket:[${fields[9]}]`);
}

function hasSocket(pid: string, inodes: ReadonlySet<string>): boolean {
  try {
    const directory = `/proc/${pid}/fd`;
    return readdirSync(directory).some((fd) => inodes.has(readlinkSync(`${directory}/${fd}`)));
  } catch {
    return false; // the process has ended, or is another user's
  }
}
