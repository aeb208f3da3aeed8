import { createInformer, type ApiClient, type KubeObject } from "@kip/k8s-client";
import { defined, silentLogger, systemClock } from "@kip/base";

/** Options of {@link until}. */
export interface UntilOptions<T> {
  readonly client: ApiClient;
  readonly path: string;
  readonly fieldSelector?: string | undefined;
  /** Called with all objects of the collection after each change. A value ends the wait. */
  readonly check: (objects: readonly T[]) => boolean | undefined;
  /** @default 60000 */
  readonly limitMs?: number | undefined;
}

/** Waits with a watch until the objects of a collection satisfy a condition. */
export async function until<T>(options: UntilOptions<T & KubeObject>): Promise<(T & KubeObject)[]> {
  const { client, path, fieldSelector, check, limitMs = 60_000 } = options;
  const stop = new AbortController();
  const done = Promise.withResolvers<(T & KubeObject)[]>();
  const look = (): void => {
    if (informer.isSynced && check(informer.list()) === true) done.resolve(informer.list());
  };
  const informer = createInformer<T>({
    client,
    path,
    query: defined({ fieldSelector }),
    onEvent: () => queueMicrotask(look),
    logger: silentLogger,
    clock: systemClock,
    signal: stop.signal,
  });
  void informer.synced.then(look, () => {});
  const timer = setTimeout(() => {
    const seen = JSON.stringify(informer.list(), undefined, 1).slice(0, 6000);
    done.reject(new Error(`Condition not met within ${limitMs} ms: ${check.toString()}\n${seen}`));
  }, limitMs);
  try {
    return await done.promise;
  } finally {
    clearTimeout(timer);
    stop.abort();
  }
}
