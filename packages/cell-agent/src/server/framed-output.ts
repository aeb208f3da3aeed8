import { Writable } from "node:stream";
import type { Channel, FrameWriter } from "@kip/agent-api";
import { pause, systemClock } from "@kip/base";

/** Shorter output waits for more of it, bytes. */
const smallBytes = 4096;
/** How long, milliseconds. */
const gatherMs = 2;

/**
 * What a process prints, as frames of a channel. Small output is sent at once, and what follows within 2 ms is sent
 * together: kip reads a cell's small pieces slowly (5 us each, of 3 % of a thread), and a program that prints each line
 * by itself would delay all other streams of its cell.
 *
 * @param gone aborts when nothing more can be sent
 */
export function framedOutput(writer: FrameWriter, channel: Channel, gone: AbortSignal): Writable {
  const send = async (bytes: Buffer): Promise<void> => {
    await writer.write(channel, bytes);
    if (bytes.length < smallBytes) await pause(gatherMs, systemClock, gone);
  };
  return new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      send(chunk).then(() => done(), done);
    },
    writev: (chunks, done) => {
      const pieces = chunks.map(({ chunk }) => chunk as Buffer); // strings are decoded before
      send(Buffer.concat(pieces)).then(() => done(), done);
    },
  });
}
