// Facts about Node's objects that Node's types do not express.
import type { AddressInfo } from "node:net";
import type { Readable } from "node:stream";

/** The content of a stream without an encoding, which therefore yields buffers. The stream is destroyed when the loop ends. */
export function bytesOf(stream: Readable): AsyncIterable<Buffer> {
  return stream as AsyncIterable<Buffer>; // without an encoding
}

/**
 * The TCP port of a server.
 *
 * @throws {TypeError} if it is not listening, or not on TCP
 */
export function portOf(server: { address(): string | AddressInfo | null }): number {
  const address = server.address();
  if (address === null || typeof address === "string")
    throw new TypeError("Cannot read the port of a server: it does not listen on TCP");
  return address.port;
}

/** Whether a child process has its pipes. Without free file descriptors it has none, whatever its type says. */
export function hasPipes({ stdout }: { readonly stdout: Readable | null | undefined }): boolean {
  return stdout !== undefined;
}
