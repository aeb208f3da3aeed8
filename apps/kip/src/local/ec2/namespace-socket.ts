import { spawn } from "node:child_process";
import type { SendHandle, Serializable } from "node:child_process";
import { Server } from "node:net";
import path from "node:path";
import { text } from "node:stream/consumers";
import { KipError } from "../../errors.ts";

/** An address in a network namespace. */
export interface NamespaceAddress {
  /** File of a network namespace. */
  readonly namespaceFile: string;
  readonly address: string;
  readonly port: number;
}

/**
 * Listens in a network namespace. This process serves the connections, whose addresses are those of the namespace. A Node
 * process cannot enter a namespace itself, so a child process listens there and hands the socket over.
 *
 * @throws {KipError} `LOCAL_CLUSTER_FAILED`
 */
export async function listenInNamespace(place: NamespaceAddress): Promise<Server> {
  const { namespaceFile, address, port } = place;
  const program = path.join(import.meta.dirname, "listen-in-namespace.ts");
  const args = [`--net=${namespaceFile}`, process.execPath, program, address, String(port)];
  const child = spawn("nsenter", args, { stdio: ["ignore", "ignore", "pipe", "ipc"] });
  const said = child.stderr ? text(child.stderr) : "";
  const socket = await new Promise<SendHandle | undefined>((resolve, reject) => {
    child.once("message", (_message: Serializable, handle: SendHandle) => resolve(handle));
    child.once("exit", () => resolve(undefined));
    child.once("error", reject);
  });
  if (child.connected) child.disconnect();
  if (socket instanceof Server) return socket;
  const reason = (await said).trim().slice(-500);
  const message = `Cannot listen at ${address}:${port} in ${namespaceFile}: ${reason}`;
  throw new KipError("LOCAL_CLUSTER_FAILED", message);
}
