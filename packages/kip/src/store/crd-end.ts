import { silentLogger, untilAborted, type Clock } from "@kip/base";
import {
  createInformer,
  isNotFound,
  paths,
  type ApiClient,
  type KubeObject,
} from "@kip/k8s-client";
import { cellCrd } from "./cell-crd.ts";

/** Options of {@link untilCrdIsGone}. */
export interface CrdEndOptions {
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called once when the resource exists and is being watched. */
  readonly whenWatched?: (() => Promise<unknown>) | undefined;
}

/** Resolves when there is no Cell resource, so that it can be installed again. @throws the signal's reason */
export async function untilCrdIsGone(options: CrdEndOptions): Promise<void> {
  const { client, clock, signal, whenWatched } = options;
  const gone = Promise.withResolvers<void>();
  const done = new AbortController();
  const crds = createInformer<KubeObject>({
    client,
    path: paths.customResourceDefinitions(),
    query: { fieldSelector: `metadata.name=${cellCrd.metadata.name}` },
    onEvent: ({ type }) => {
      if (type === "deleted") gone.resolve();
    },
    clock,
    logger: silentLogger,
    signal: AbortSignal.any([signal, done.signal]),
  });
  try {
    await untilAborted(crds.synced, signal);
    if (crds.size === 0) return;
    await whenWatched?.();
    await untilAborted(gone.promise, signal);
  } catch (error) {
    if (!isNotFound(error)) throw error;
  } finally {
    done.abort();
  }
}
