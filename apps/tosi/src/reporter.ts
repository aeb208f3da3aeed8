import { isCodedError, systemClock } from "@kip/base";
import type { PullProgress } from "@kip/oci-image";

/** Tells a person or a program how it goes. */
export interface Reporter {
  progress(image: string, progress: PullProgress): void;
  /** The result; `line` is what a person sees. */
  done(facts: Readonly<Record<string, unknown>>, line: string): void;
  failed(error: unknown): void;
}

/** Shortest time between two lines of progress, milliseconds. */
const intervalMs = 100;

/** JSON lines on standard output. */
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
 * Sentences; progress is one line that is written over and over, on a terminal only.
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

/** Whether a line of progress is due: the last one always is. */
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
