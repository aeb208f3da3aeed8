import { isCodedError, systemClock } from "@kip/base";
import type { PullProgress } from "@kip/oci-image";

/** Reports progress and results to a person or a program. */
export interface Reporter {
  progress(image: string, progress: PullProgress): void;
  /** Reports the result. `line` is the text for a person. */
  done(facts: Readonly<Record<string, unknown>>, line: string): void;
  failed(error: unknown): void;
}

/** Minimum time between two lines of progress, milliseconds. */
const intervalMs = 100;

/** Reports JSON lines on standard output. */
export function jsonReporter(write: (line: string) => void): Reporter {
  const tell = (event: string, facts: object): void =>
    write(`${JSON.stringify({ event, ...facts })}\n`);
  const isDue = pacer();
  return {
    progress: (image, progress) => {
      if (isDue(progress)) tell("progress", { image, ...progress });
    },
    done: (facts) => tell("done", facts),
    failed: (error) => {
      const code = isCodedError(error) ? { code: error.code, remedy: error.remedy } : {};
      tell("failed", { message: messageOf(error), ...code });
    },
  };
}

/**
 * Reports sentences. Progress is one line that is overwritten, and only shown on a terminal.
 *
 * @param out standard output
 * @param screen standard error
 */
export function textReporter(
  out: (text: string) => void,
  screen: { write(text: string): unknown; readonly isTTY?: boolean },
  showsProgress: boolean,
): Reporter {
  const isDue = pacer();
  let isOpen = false;
  const endLine = (): void => {
    if (isOpen) screen.write("\r\x1b[K");
    isOpen = false;
  };
  return {
    progress: (image, progress) => {
      if (!showsProgress || screen.isTTY !== true || !isDue(progress)) return;
      const { downloadedBytes, totalBytes, layersDone, layerCount } = progress;
      const share = totalBytes === 0 ? 100 : Math.floor((100 * downloadedBytes) / totalBytes);
      const size = `${mebibytes(downloadedBytes)} of ${mebibytes(totalBytes)} MiB`;
      screen.write(`\r\x1b[K${image}: ${share} %, ${size}, ${layersDone} of ${layerCount} layers`);
      isOpen = true;
    },
    done: (_facts, line) => {
      endLine();
      if (line !== "") out(`${line}\n`);
    },
    failed: (error) => {
      endLine();
      screen.write(`tosi: ${messageOf(error)}\n`);
      if (isCodedError(error) && error.remedy !== undefined)
        screen.write(`      ${error.remedy}\n`);
    },
  };
}

/** Limits how often progress is reported. The last report always passes. */
function pacer(): (progress: PullProgress) => boolean {
  let last = Number.NEGATIVE_INFINITY;
  return ({ layersDone, layerCount }) => {
    const now = systemClock.monotonic();
    if (now - last < intervalMs && layersDone < layerCount) return false;
    last = now;
    return true;
  };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function mebibytes(bytes: number): string {
  return (bytes / 1024 ** 2).toFixed(1);
}
