import { setImmediate } from "node:timers/promises";
import type { ChangeReader, ViewChange } from "@kip/network-view";

/** So many bytes are read before other work of the process is let pass: about 10 ms, unless one line is longer. */
const blockBytes = 256 * 1024;

/**
 * Reads changes of Services in blocks, between which other work of the process passes: a change may have thousands of Services.
 *
 * @throws what the reader throws
 */
export async function* changesIn(
  pieces: readonly Buffer[],
  reader: ChangeReader,
): AsyncGenerator<ViewChange> {
  for (const piece of pieces)
    for (let at = 0; at < piece.length; at += blockBytes) {
      yield* reader.push(piece.subarray(at, at + blockBytes));
      if (at + blockBytes < piece.length) await setImmediate();
    }
}
