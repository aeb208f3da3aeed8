import type { Clock } from "@kip/base";
import { ImageError } from "../errors.ts";

/** Default minimum rate of a registry, bytes per second. At a lower rate an image would never be complete. */
const defaultLeast = 1024;
/** How long the rate may be lower, milliseconds. A silent peer is given up earlier. */
const windowMs = 60_000;

/**
 * Passes a body on. Gives up if it was slower than a minimum rate for a minute. Only counts time spent waiting for the peer, so
 * the reader may be slow.
 *
 * @param options.leastBytesPerSecond the minimum rate @default 1024
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
