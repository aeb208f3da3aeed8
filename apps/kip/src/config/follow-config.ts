import { pause, SerialQueue, systemClock, type Logger } from "@kip/base";
import { changedKeys, type ProviderConfig } from "@kip/kip";
import { warnOfRestart, type ConfigFile } from "./config-file.ts";
import { watchFile } from "./watch-file.ts";

/** Options of {@link followConfig}. */
export interface FollowConfigOptions {
  readonly file: ConfigFile;
  /** The current content. */
  readonly content: unknown;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Applies the keys that may change while kip runs. */
  readonly apply: (config: ProviderConfig) => Promise<void>;
}

/** Delay after the last change event, milliseconds. A writer may need several system calls for a file. */
const settledMs = 300;

/**
 * Watches a `provider.yaml` until the signal aborts. Applies the keys that may change while kip runs, and logs which ones need
 * a restart. While the file is not valid, the previous configuration stays in force. Also follows files that a ConfigMap's
 * volume replaces.
 */
export function followConfig(options: FollowConfigOptions): void {
  const { file, logger, signal } = options;
  const queue = new SerialQueue();
  let { content } = options;
  let isAsked = false;
  const look = async (): Promise<void> => {
    if (!(await pause(settledMs, systemClock, signal))) return;
    isAsked = false;
    content = await takeChange(options, content);
    watchAll();
  };
  const ask = (): void => {
    if (isAsked || signal.aborted) return;
    isAsked = true;
    queue.run(look).catch((error: unknown) => {
      if (!signal.aborted)
        logger.error("Could not apply the changed configuration", { err: error });
    });
  };
  const watched = new Map<string, Disposable>();
  const watchAll = (): void => {
    for (const place of signal.aborted ? [] : file.paths)
      if (!watched.has(place)) watched.set(place, watchFile(place, ask));
  };
  watchAll();
  // The file may have changed since it was read.
  ask();
  const end = (): void => watched.forEach((each) => each[Symbol.dispose]());
  signal.addEventListener("abort", end, { once: true });
}

/** @returns the content to compare the file with next time */
async function takeChange(
  { file, logger, apply }: FollowConfigOptions,
  before: unknown,
): Promise<unknown> {
  const { config, content } = await file.read();
  const changed = changedKeys(before, content);
  const live = changed.filter(({ reload }) => reload === "live").map((each) => each.path);
  if (live.length > 0) {
    await apply(config);
    logger.info("Applied the changed settings, for cells that start from now on", { keys: live });
  }
  warnOfRestart(changed, logger);
  return content;
}
