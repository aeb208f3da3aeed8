import path from "node:path";
import { pause, SerialQueue, systemClock, watchOrPoll, type Logger } from "@kip/base";
import { changedKeys, type ProviderConfig } from "@kip/kip";
import { noteText } from "./placed-notes.ts";
import { readConfigFile, readConfigText, type ReadConfig } from "./read-provider-config.ts";

/** Options of {@link followConfig}. */
export interface FollowConfigOptions {
  readonly file: string;
  /** What the file had when kip was started. */
  readonly first: Pick<ReadConfig, "content">;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Takes the keys that may change while kip runs. */
  readonly apply: (config: ProviderConfig) => Promise<void>;
}

/** A writer may need several calls of the system for a file; it is read when there have been none for this long. */
const settledMs = 300;

/**
 * Watches a `provider.yaml` until the signal aborts: applies what may change while kip runs, says what needs a restart, and
 * keeps the configuration in force while the file has problems. Follows files that a ConfigMap's volume replaces, too.
 */
export function followConfig(options: FollowConfigOptions): void {
  const { file, logger, signal } = options;
  const queue = new SerialQueue();
  let { content } = options.first;
  let isAsked = false;
  const look = async (): Promise<void> => {
    await pause(settledMs, systemClock, signal);
    isAsked = false;
    content = await takeChange(options, content);
  };
  const ask = (): void => {
    if (isAsked || signal.aborted) return;
    isAsked = true;
    queue.run(look).catch((error: unknown) => {
      if (!signal.aborted) logger.error("Could not read the changed configuration", { err: error });
    });
  };
  const watching = watchOrPoll(path.dirname(file), (name) => {
    // A volume of a ConfigMap exchanges the folder "..data", in which the file is.
    if (name === undefined || name === path.basename(file) || name.startsWith("..")) ask();
  });
  // It may have changed since it was read.
  ask();
  signal.addEventListener("abort", () => watching[Symbol.dispose](), { once: true });
}

/** @returns the content that the file is compared with next time */
async function takeChange(
  { file, logger, apply }: FollowConfigOptions,
  before: unknown,
): Promise<unknown> {
  const { config, content, problems, notices } = readConfigText(await readConfigFile(file));
  if (!config) {
    const texts = problems.map((note) => noteText(note));
    logger.error("Kept the configuration in force: the changed file has problems", {
      file,
      problems: texts,
    });
    return before;
  }
  const changed = changedKeys(before, content);
  if (changed.length === 0) return content;
  for (const note of notices) logger.warn("Read a setting with a remark", { note: noteText(note) });
  const pathsOf = (reload: string): readonly string[] =>
    changed.filter((each) => each.reload === reload).map((each) => each.path);
  const [live, restart] = [pathsOf("live"), pathsOf("restart")];
  if (live.length > 0) {
    await apply(config);
    logger.info("Applied the changed settings, for cells that start from now on", { keys: live });
  }
  if (restart.length > 0)
    logger.warn("Changed settings take effect when kip is started again", { keys: restart });
  return content;
}
