import type { Clock } from "@kip/base";
import { ImageError } from "../errors.ts";

/** The slowest that a registry may be unless the caller wants more, bytes per second: an image at this rate never gets anywhere. */
const defaultLeast = 1024;
/** It may be slower for so long, milliseconds. A peer that sends nothing at all is given up sooner. */
const windowMs = 60_000;

/**
 * Hands a body on, and gives it up when it has been slower than a rate for a minute. Only the time that is
 * spent waiting for the peer counts: the reader may be as slow as it is.
 *
 * @param options.leastBytesPerSecond the rate @default 1024
 * @throws {ImageError} `REGISTRY_TOO_SLOW`
 */
export async function* withLeastThroughput(
  body: AsyncIterable<Uint8Array>,
  options: {
    readonly clock: Pick<Clock, "monotonic">;
    readonly registry: string;
    readonly leastBytesPerSecond?: number | undefined;
  },
): AsyncGenerator<Uint8Array> {
  const { clock, registry, leastBytesPerSecond = defaultLeast } = options;
  let bytes = 0;
  let waitedMs = 0;
  let asked = clock.monotonic();
  for await (const chunk of body) {
    bytes += chunk.length;
    waitedMs += clock.monotonic() - asked;
    if (waitedMs >= windowMs) {
      if (bytes < (leastBytesPerSecond * waitedMs) / 1000) throw tooSlow(registry, bytes, waitedMs);
      bytes = 0;
      waitedMs = 0;
    }
    yield chunk;
    asked = clock.monotonic();
  }
}

function tooSlow(registry: string, bytes: number, ms: number): Error {
  const seconds = Math.round(ms / 1000);
  return new ImageError(
    "REGISTRY_TOO_SLOW",
    `registry ${registry} sent ${bytes} bytes in ${seconds} s`,
    {
      facts: { registry, bytes, seconds },
      remedy: "Look at the network to the registry, or use a mirror of it",
    },
  );
}
