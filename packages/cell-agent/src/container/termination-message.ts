import fs from "node:fs/promises";
import type { DesiredContainer } from "@kip/agent-api";
import { hasCode } from "@kip/base";
import type { ContainerRuntime } from "@kip/oci-runtime";

const maxFileBytes = 4096;
/** What is taken of the log in place of a message, as in the kubelet. */
const maxLogBytes = 2048;
const maxLogLines = 80;

/**
 * The last words of a container: the end of its message file, or of its log if it failed without one
 * and its policy says so.
 */
export async function terminationMessage(options: {
  readonly container: DesiredContainer;
  readonly exitCode: number;
  readonly terminationFile: string;
  readonly logPath: string;
  readonly id: string;
  readonly runtime: Pick<ContainerRuntime, "logs">;
}): Promise<string | undefined> {
  const message = await readEnd(options.terminationFile, maxFileBytes);
  if (message !== "") return message;
  const { terminationMessagePolicy } = options.container;
  if (terminationMessagePolicy !== "FallbackToLogsOnError" || options.exitCode === 0)
    return undefined;
  const parts: Buffer[] = [];
  const log = options.runtime.logs(
    options.id,
    options.logPath,
    { tailLines: maxLogLines },
    AbortSignal.timeout(5000),
  );
  for await (const chunk of log as AsyncIterable<Buffer | string>) parts.push(Buffer.from(chunk));
  const text = Buffer.concat(parts).subarray(-maxLogBytes).toString();
  return text === "" ? undefined : text;
}

async function readEnd(file: string, maxBytes: number): Promise<string> {
  try {
    await using handle = await fs.open(file, "r");
    const { size } = await handle.stat();
    const length = Math.min(size, maxBytes);
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, size - length);
    return buffer.subarray(0, bytesRead).toString();
  } catch (error) {
    if (hasCode(error, "ENOENT")) return "";
    throw error;
  }
}
