import { watch, type FSWatcher } from "node:fs";

/** Options of {@link watchOrPoll}. */
export interface WatchOptions {
  /** Milliseconds between two looks where watching is not possible. @default 500 */
  readonly intervalMs?: number | undefined;
  /** For tests. @default the one of `node:fs` */
  readonly watch?: typeof watch | undefined;
}

/**
 * Watches a file or folder. Where the kernel has no watch left, it calls back at intervals instead: programs of the same user
 * share its limits (`fs.inotify.max_user_instances`), and on a cell root's containers are among them.
 *
 * @param onChange called after each change, and perhaps without one; with the name of the entry of a folder if it is known
 */
export function watchOrPoll(
  place: string,
  onChange: (name: string | undefined) => void,
  options: WatchOptions = {},
): Disposable {
  const { intervalMs = 500 } = options;
  let watcher: FSWatcher | undefined;
  let timer: NodeJS.Timeout | undefined;
  const poll = (): void => {
    timer ??= setInterval(() => onChange(undefined), intervalMs);
  };
  try {
    watcher = (options.watch ?? watch)(place, (_event, name) => onChange(name ?? undefined));
    watcher.on("error", poll);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code !== "EMFILE" && code !== "ENFILE" && code !== "ENOSPC") throw error;
    poll();
  }
  return {
    [Symbol.dispose]: () => {
      watcher?.close();
      clearInterval(timer);
    },
  };
}
