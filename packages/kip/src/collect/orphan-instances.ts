import { backoffDelay, errorText, pause, untilAborted, type Clock, type Logger } from "@kip/base";
import type { CloudDriver, Instance } from "@kip/cloud";
import type { KipMetrics } from "../metrics/kip-metrics.ts";
import { clusterTag, podUidTag } from "../state/cell.ts";
import type { CellStore } from "../store/cell-store.ts";

/** Options of {@link OrphanInstances}. */
export interface OrphanInstancesOptions {
  readonly driver: CloudDriver;
  readonly store: Pick<CellStore, "list">;
  /** UIDs of the pods that are bound to this kip's node now. @default not known */
  readonly boundPods?: (() => Promise<ReadonlySet<string>>) | undefined;
  /** ID of the cluster of the store's Cells. */
  readonly clusterID: string;
  readonly metrics: Pick<KipMetrics, "orphanTermination">;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Pauses after a failed first check, or after an instance could not be ended, milliseconds. */
const failureBackoff = { initialMs: 1000, maxMs: 30_000 };

/**
 * Terminates instances of this installation that have no Cell.
 *
 * A Cell is written before its instance is requested. So an instance that was listed *before* the Cells were read and has no
 * Cell is an orphan. Instances belong to the installation, so the Cells of all its virtual nodes count. Instances whose tag
 * names another cluster are left alone. In that case two clusters have the same `testing.controllerID`, and the other one's
 * Cells are not known here.
 */
export class OrphanInstances {
  readonly #options: OrphanInstancesOptions;
  readonly #reported = new Set<string>();
  /**
   * The orphans found at kip's start that have not ended, by the UID of their pod (undefined for those without one). Undefined
   * before the first list. Stored by pod, because thousands of pods may be waiting if all Cells were removed, and the end of
   * one pod's instance must not wake the others.
   */
  #left: Map<string | undefined, Set<Instance>> | undefined;
  /**
   * UIDs of the pods that were bound just after that list was made. Orphans run no other pods. Undefined if not known, or if all
   * of them name their pods.
   */
  #bound: ReadonlySet<string> | undefined;
  /** Why there is no list yet, after a failure. */
  #problem: string | undefined;
  /** Functions that wake the pods whose orphans have changed, by pod UID. */
  readonly #wakes = new Map<string, PromiseWithResolvers<void>>();

  constructor(options: OrphanInstancesOptions) {
    this.#options = options;
  }

  /**
   * Resolves when no instance from before kip's start may still run the pod. One may if the pod's Cell was removed together
   * with its finalizer while kip was away. A standby instance does not name a pod, so it may run any pod that
   * was bound then.
   *
   * @param onWait called with what the pod is waiting for, each time this changes
   * @throws the signal's reason
   */
  async endedFor(
    podUid: string,
    {
      signal,
      onWait,
    }: { readonly signal: AbortSignal; readonly onWait: (message: string) => void },
  ): Promise<void> {
    let lastReported: string | undefined;
    for (;;) {
      const other = this.#mayRun(podUid);
      if (this.#left && !other) return;
      const message = this.#waitText(other);
      if (message !== undefined && message !== lastReported) onWait(message);
      lastReported = message;
      await untilAborted(this.#wakeOf(podUid).promise, signal);
    }
  }

  /** An orphan that may run the pod: its tag names the pod, or it has no such tag and the pod was bound. */
  #mayRun(podUid: string): Instance | undefined {
    const first = (uid: string | undefined): Instance | undefined =>
      this.#left?.get(uid)?.values().next().value;
    return first(podUid) ?? (this.#bound?.has(podUid) === false ? undefined : first(undefined));
  }

  #waitText(other: Instance | undefined): string | undefined {
    if (other)
      return `Waiting for the end of instance "${other.id}": it has no Cell and may still run this pod`;
    return this.#problem && `Cannot tell whether an instance still runs this pod: ${this.#problem}`;
  }

  /**
   * Terminates the orphans that exist now, and waits for their end. Each failure is repeated independently until it succeeds or
   * the signal aborts, because an instance that takes hours to end must not delay others.
   */
  async begin(signal: AbortSignal): Promise<void> {
    const { logger } = this.#options;
    const found = await this.#repeat(
      async () => {
        const orphans = await this.#find();
        if (orphans.some(({ tags }) => tags[podUidTag] === undefined))
          this.#bound = await this.#options.boundPods?.();
        return orphans;
      },
      (err) => {
        this.#problem = errorText(err);
        this.#wakeAll();
        logger.warn("Could not look for instances without a Cell: pods wait", { err });
      },
      signal,
    );
    if (!found) return;
    this.#setLeft(found);
    const end = async (each: Instance): Promise<void> => {
      const text = "Could not end an instance without a Cell: its pod waits";
      const onFailure = (err: unknown): void => logger.warn(text, { instance: each.id, err });
      await this.#repeat(async () => await this.#end(each, signal), onFailure, signal);
    };
    await Promise.all(found.map(end));
  }

  /** Repeats work until it succeeds. Undefined if the signal aborts first. */
  async #repeat<T>(
    work: () => Promise<T>,
    onFailure: (error: unknown) => void,
    signal: AbortSignal,
  ): Promise<T | undefined> {
    const { clock } = this.#options;
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        return await work();
      } catch (error) {
        if (signal.aborted) break;
        onFailure(error);
        await pause(backoffDelay(failures, failureBackoff, error), clock, signal);
      }
    }
    return undefined;
  }

  async #end(orphan: Instance, signal: AbortSignal): Promise<void> {
    await this.#terminate(orphan);
    await this.#options.driver.waitForTerminated(orphan.id, signal);
    this.#remove(orphan);
  }

  #setLeft(found: readonly Instance[]): void {
    this.#left = new Map();
    for (const each of found) {
      const uid = each.tags[podUidTag];
      this.#left.set(uid, (this.#left.get(uid) ?? new Set()).add(each));
    }
    this.#wakeAll();
  }

  #remove(orphan: Instance): void {
    const uid = orphan.tags[podUidTag];
    const ofPod = this.#left?.get(uid);
    ofPod?.delete(orphan);
    if (uid !== undefined) this.#wake(uid);
    // Pods that wait for orphans without the tag are woken when the last of these has ended.
    else if (ofPod?.size === 0) this.#wakeAll();
  }

  #wakeOf(podUid: string): PromiseWithResolvers<void> {
    const wake = this.#wakes.get(podUid) ?? Promise.withResolvers<void>();
    this.#wakes.set(podUid, wake);
    return wake;
  }

  #wake(podUid: string): void {
    this.#wakes.get(podUid)?.resolve();
    this.#wakes.delete(podUid);
  }

  #wakeAll(): void {
    for (const podUid of this.#wakes.keys()) this.#wake(podUid);
  }

  async #terminate({ id, name }: Instance): Promise<void> {
    const { driver, metrics, logger } = this.#options;
    let now: Instance | undefined;
    try {
      now = await driver.describe(id);
      // Even if it is not found, because the cloud may show it late.
      await driver.terminate(id);
    } catch (error) {
      metrics.orphanTermination("failed");
      throw error;
    }
    const fields = { instance: id, cell: name };
    // It ended, and its Cell was removed, between listing the instances and the Cells.
    if (!now) return;
    if (now.state === "stopping") {
      // Probably its Cell was just removed. A machine that another client of the cloud stopped looks the same.
      logger.info("Terminated an instance without a Cell that was stopping", fields);
      return;
    }
    metrics.orphanTermination("ok");
    logger.warn("Terminated an instance without a Cell", fields);
  }

  /**
   * Terminates the orphans that exist now.
   *
   * @param isKnown whether an instance's token is the UID of a Cell that exists, by a watch. The Cells are not read unless an
   * instance has another token: thousands of them take seconds. @default none is
   * @returns the number of orphans found
   */
  async collect(isKnown?: (token: string) => boolean): Promise<number> {
    const { logger } = this.#options;
    const orphans = await this.#find(isKnown);
    for (const orphan of orphans) {
      try {
        await this.#terminate(orphan);
      } catch (err) {
        logger.warn("Could not terminate an instance without a Cell", { instance: orphan.id, err });
      }
    }
    return orphans.length;
  }

  async #find(isKnown?: (token: string) => boolean): Promise<readonly Instance[]> {
    const { driver, store } = this.#options;
    const instances = (await driver.list()).filter(
      (each) => this.#isOwn(each) && isKnown?.(each.token) !== true,
    );
    if (instances.length === 0) return [];
    const tokens = new Set((await store.list()).map((cell) => cell.metadata.uid));
    return instances.filter((instance) => !tokens.has(instance.token));
  }

  #isOwn(instance: Instance): boolean {
    const { clusterID, logger } = this.#options;
    if (isOfCluster(instance, clusterID)) return true;
    const { id, tags } = instance;
    const { [clusterTag]: cluster = "" } = tags;
    if (!this.#reported.has(cluster))
      logger.error(
        "Left the instances of another cluster alone: it has this testing.controllerID",
        {
          cluster,
          instance: id,
          remedy: "Leave testing.controllerID out, or give each cluster one of its own",
        },
      );
    this.#reported.add(cluster);
    return false;
  }
}

/** Whether kip launched the instance in this cluster. Instances of earlier versions of kip do not name a cluster. */
export function isOfCluster({ tags }: Pick<Instance, "tags">, clusterID: string): boolean {
  return (tags[clusterTag] ?? clusterID) === clusterID;
}
