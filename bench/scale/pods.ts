import { inParallel, silentLogger, systemClock } from "@kip/base";
import { createInformer, isNotFound, paths, type ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";

/** Number of concurrent calls to the API server. */
const concurrency = 32;

/** How often to check kip's progress and print it on standard error, milliseconds. */
const progressMs = 15_000;
/**
 * Maximum time without progress of any pod, milliseconds. A slow run continues. One that is stuck ends with an error that says
 * where.
 */
const stuckMs = 180_000;

/** Options of {@link ScalePods}. */
export interface ScalePodsOptions {
  /** The administrator's client. */
  readonly client: ApiClient;
  readonly nodeName: string;
  /** An empty namespace. */
  readonly namespace: string;
}

/** Many pods of a node, and their state in the API. */
export class ScalePods implements AsyncDisposable {
  readonly #options: ScalePodsOptions;
  readonly #stop = new AbortController();
  /** The running pods, by UID, with their restart counts. */
  readonly #running = new Map<string, number>();
  readonly #waiting = new Set<() => void>();
  #existing = 0;
  #lastProgressAt = 0;
  #names: readonly string[] = [];

  constructor(options: ScalePodsOptions) {
    this.#options = options;
    createInformer<Pod>({
      client: options.client,
      path: paths.pods(options.namespace),
      onEvent: ({ type, object }) => {
        if (type !== "updated") this.#existing += type === "added" ? 1 : -1;
        const status = type === "deleted" ? undefined : object.status;
        const [container] = status?.containerStatuses ?? [];
        const uid = object.metadata?.uid ?? "";
        if (status?.phase === "Running" && container?.ready === true)
          this.#running.set(uid, container.restartCount);
        else this.#running.delete(uid);
        this.#lastProgressAt = performance.now();
        for (const check of this.#waiting) check();
      },
      logger: silentLogger,
      clock: systemClock,
      signal: this.#stop.signal,
    });
  }

  /** Resolves when all are ready. */
  async create(count: number): Promise<void> {
    const { client, namespace, nodeName } = this.#options;
    this.#names = Array.from({ length: count }, (_, index) => `p${index}`);
    const createAll = inParallel(this.#names, concurrency, async (name) => {
      await client.create(paths.pods(namespace), pod(name, nodeName));
    });
    await this.#until(() => this.#running.size === count, createAll);
  }

  /** Resolves when `work` is done, this number of pods was restarted, and all are ready. */
  async restarted(count: number, work: Promise<unknown>): Promise<void> {
    const isMet = (): boolean =>
      this.#running.size === this.#names.length &&
      [...this.#running.values()].filter((restarts) => restarts > 0).length >= count;
    await this.#until(isMet, work);
  }

  /** Resolves when all are gone. */
  async remove(): Promise<void> {
    const { client, namespace } = this.#options;
    const removeAll = inParallel(this.#names, concurrency, async (name) => {
      await client.delete(paths.pods(namespace, name)).catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      });
    });
    await this.#until(() => this.#existing === 0, removeAll);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#options.client.delete(paths.namespaces(this.#options.namespace));
  }

  /**
   * Resolves when `work` is done and the condition is met.
   *
   * @throws {Error} if no pod changes for three minutes; errors of `work`
   */
  async #until(isMet: () => boolean, work: Promise<unknown>): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const check = (): void => {
      if (isMet()) resolve();
    };
    this.#lastProgressAt = performance.now();
    const timer = setInterval(() => {
      const state = `of ${this.#existing} pods ${this.#running.size} run`;
      console.error(state);
      if (performance.now() - this.#lastProgressAt > stuckMs)
        reject(new Error(`kip is stuck: for ${stuckMs / 1000} s no pod has changed; ${state}`));
    }, progressMs);
    this.#waiting.add(check);
    try {
      await Promise.all([promise, work]);
    } finally {
      clearInterval(timer);
      this.#waiting.delete(check);
    }
  }
}

function pod(name: string, nodeName: string): object {
  return {
    metadata: { name, labels: { app: "scale" } },
    spec: {
      nodeName,
      terminationGracePeriodSeconds: 5,
      tolerations: [{ operator: "Exists" }],
      containers: [{ name: "main", image: "example.test/web:1" }],
    },
  };
}
