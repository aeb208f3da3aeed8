import { watch, type FSWatcher } from "node:fs";

/** Options of {@link watchOrPoll}. */
export interface WatchOptions {
  /** Milliseconds between two calls where watching is not possible. @default 500 */
  readonly intervalMs?: number | undefined;
  /**
   * Milliseconds between two calls where watching is possible. The kernel drops events if too many are unread, and Node does not
   * tell. All watches of a process share the limit (`fs.inotify.max_queued_events`), so a busy one can cost another its events.
   * @default no calls without a change
   */
  readonly recheckMs?: number | undefined;
  /** Replaced by tests. @default the one of `node:fs` */
  readonly watch?: typeof watch | undefined;
}

/**
 * Watches a file or folder. If the kernel has no watch left, it calls back at intervals instead. All programs of one user share
 * the limit (`fs.inotify.max_user_instances`). On a cell, root's containers are among them.
 *
 * @param onChange called after each change, and sometimes without one. Gets the name of a folder's entry if it is known
 */
export function watchOrPoll(
  place: string,
  onChange: (name: string | undefined) => void,
  options: WatchOptions = {},
): Disposable {
  const { intervalMs = 500, recheckMs } = options;
  let watcher: FSWatcher | undefined;
  let timer: NodeJS.Timeout | undefined;
  const callEvery = (ms: number): void => {
    clearInterval(timer);
    timer = setInterval(() => onChange(undefined), ms);
  };
  const poll = (): void => callEvery(intervalMs);
  try {
    watcher = (options.watch ?? watch)(place, (_event, name) => onChange(name ?? undefined));
    watcher.on("error", poll);
    if (recheckMs !== undefined) callEvery(recheckMs);
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
