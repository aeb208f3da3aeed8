import type { Clock } from "@kip/base";

const intervalMs = 5000;

/** Passes on one line every 5 seconds, the first one after 5 seconds, and drops the others. */
export function rateLimited(options: {
  readonly clock: Clock;
  readonly onProgress: (line: string) => void;
}): (line: string) => void {
  const { clock, onProgress } = options;
  let last = clock.monotonic();
  return (line) => {
    if (clock.monotonic() - last < intervalMs) return;
    last = clock.monotonic();
    onProgress(line);
  };
}
