import { setImmediate } from "node:timers/promises";
import type { ChangeReader, ViewChange } from "@kip/network-view";

/** How many bytes are parsed before other work of the process gets a turn. This takes about 10 ms, unless a line is longer. */
const blockBytes = 256 * 1024;

/**
 * Parses changes of Services in blocks, with turns for other work in between. A change may contain thousands of Services.
 *
 * @throws errors of the parser
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
