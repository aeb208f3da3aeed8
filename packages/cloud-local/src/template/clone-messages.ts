import type { Socket } from "node:net";
import { MachineError } from "../host/machine-error.ts";

/** Longer than any message, UTF-16 code units. */
const maxLength = 4096;

/**
 * Reads the next message (a line) from a machine's clone port.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` if the message is not `wanted`, has no end, or the port is closed
 */
export async function waitForMessage(port: Socket, wanted: string): Promise<void> {
  let text = "";
  const received = Promise.withResolvers<void>();
  const onData = (chunk: string): void => {
    text += chunk;
    const end = text.indexOf("\n");
    if (end === -1 && text.length <= maxLength) return;
    const message = end === -1 ? text : text.slice(0, end);
    if (message === wanted) received.resolve();
    else received.reject(unexpected(`it said "${message.slice(0, 200)}" instead of "${wanted}"`));
  };
  const onClose = (): void => received.reject(unexpected(`it ended before it said "${wanted}"`));
  port.setEncoding("utf8").on("data", onData).on("close", onClose);
  try {
    await received.promise;
  } finally {
    port.off("data", onData).off("close", onClose);
  }
}

function unexpected(reason: string): MachineError {
  return new MachineError("Cannot make a machine of a template", reason);
}
