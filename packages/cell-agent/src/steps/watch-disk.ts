import { pause } from "@kip/base";
import { exceededLimit, shortage, shortageMessage, smallestLimit } from "../disk/eviction.ts";
import { allFolders, ownFileSystems, podFolders, podUsage } from "../disk/pod-usage.ts";
import type { DiskRoom } from "../disk/disk-meter.ts";
import type { PodUsage } from "../disk/eviction.ts";
import type { EndReason, PodState } from "../state/pod-state.ts";
import { present, type Executor, type StepTools } from "./step-tools.ts";

/** Of the kubelet's eviction manager. There is no event for a folder that grows: quotas of the disk can be left by who owns a file. */
const intervalMs = 10_000;
/** What an evicted pod has to end, by the kubelet. */
const graceMs = 1000;
/** Folders are walked through after so many looks at the disk alone, whatever these show. */
const maxLooks = 30;
/** The longest walk, seconds; before the pod is evicted from a full disk. */
const limitSeconds = { usual: 600, full: 5 };

/** Watches what the pod takes on the disk, and ends it when that is too much. */
export const watchDisk: Executor<"watchDisk"> = async (_step, { state, signal }, tools) => {
  const watch = new DiskWatch(tools, state, signal);
  while (await pause(intervalMs, tools.clock, signal)) {
    const reason = await watch.look();
    if (reason === undefined) continue;
    tools.events.warning(reason.reason, reason.message);
    return { kind: "end", graceMs, nowMs: tools.clock.now(), reason };
  }
  return undefined;
};

class DiskWatch {
  readonly #tools: StepTools;
  readonly #state: () => PodState;
  readonly #signal: AbortSignal;
  /** The last walk: what the pod and all else on the disk took then. */
  #last: { readonly podBytes: number; readonly diskBytes: number } | undefined;
  #looks = 0;
  /** Whether a walk has begun. One that fails, or takes too long, is not repeated at once for those who read figures. */
  #hasBegun = false;

  constructor(tools: StepTools, state: () => PodState, signal: AbortSignal) {
    this.#tools = tools;
    this.#state = state;
    this.#signal = signal;
  }

  /** Why the pod is to be evicted, if it is. Limits come before a full disk, as with the kubelet. */
  async look(): Promise<EndReason | undefined> {
    const { dependencies, directories } = this.#tools;
    const pod = present(this.#state().desired);
    const room = await dependencies.diskMeter.room(directories.disk);
    const isWanted = this.#tools.diskFigures.isWanted(this.#tools.clock.now());
    this.#tools.diskFigures.keepRooms(
      { disk: room, mounts: isWanted ? await this.#mounts() : new Map() },
      this.#tools.clock.now(),
    );
    const isNews = this.#isNews(room.sizeBytes - room.freeBytes, smallestLimit(pod), isWanted);
    const lack = pod.isCritical === true ? undefined : shortage(room);
    if (!isNews && !lack) return undefined;
    const usage = lack ? await this.#usageOnFullDisk() : await this.#usageUntilFull();
    // Full now: another look has the reason.
    if (!usage) return await this.look();
    this.#last = { podBytes: usage.totalBytes, diskBytes: room.sizeBytes - room.freeBytes };
    const reason = "Evicted";
    const message = exceededLimit(pod, usage);
    if (message !== undefined) return { reason, message };
    return lack && { reason, message: shortageMessage(lack, pod, usage), isDisruption: true };
  }

  /**
   * Whether a limit can be exceeded since the last walk. No part of the pod has grown by more than the disk has, and what
   * the pod has freed elsewhere meanwhile. What others have freed does not show, hence a walk now and then. Without a limit
   * there is none, but for those who read figures, and for them no more often.
   */
  #isNews(diskBytes: number, limit: number | undefined, isWanted: boolean): boolean {
    if (limit === undefined && !isWanted) return false;
    const grown = this.#last && this.#last.podBytes + diskBytes - this.#last.diskBytes;
    const isDue = limit === undefined ? !this.#hasBegun : grown === undefined || grown > limit;
    this.#looks = isDue ? maxLooks : this.#looks + 1;
    if (this.#looks < maxLooks) return false;
    this.#looks = 0;
    this.#hasBegun = true;
    return true;
  }

  /** Undefined when the disk has become too full before the walk was over: that is seen as soon as without a walk. */
  async #usageUntilFull(): Promise<PodUsage | undefined> {
    const [isOver, isFull] = [new AbortController(), new AbortController()];
    const watching = this.#whenFull(isOver.signal, () => isFull.abort());
    try {
      return await this.#usage(limitSeconds.usual, isFull.signal);
    } catch (error) {
      this.#signal.throwIfAborted();
      if (isFull.signal.aborted) return undefined;
      throw error;
    } finally {
      isOver.abort();
      await watching;
    }
  }

  /** Looks at the disk alone until something is over. */
  async #whenFull(isOver: AbortSignal, onFull: () => void): Promise<void> {
    const { dependencies, directories, clock, logger } = this.#tools;
    while (await pause(intervalMs, clock, isOver)) {
      try {
        if (shortage(await dependencies.diskMeter.room(directories.disk))) return onFull();
      } catch (error) {
        logger.warn("Could not look at the room on the disk", { err: error });
      }
    }
  }

  /** A disk that is full ends the pod also when nothing more can be said of it. */
  async #usageOnFullDisk(): Promise<PodUsage> {
    try {
      return await this.#usage(limitSeconds.full);
    } catch (error) {
      this.#signal.throwIfAborted();
      this.#tools.logger.warn("Could not measure what the pod takes on the disk", { err: error });
      return { volumes: new Map(), containers: new Map(), totalBytes: 0 };
    }
  }

  async #usage(limit: number, until?: AbortSignal): Promise<PodUsage> {
    const { dependencies, directories } = this.#tools;
    const folders = podFolders(this.#state(), directories);
    const signal = until ? AbortSignal.any([this.#signal, until]) : this.#signal;
    const options = { limitSeconds: limit, signal };
    const all = [...allFolders(folders), ...folders.inMemory.values()];
    const found = await dependencies.diskMeter.usage(all, options);
    this.#tools.diskFigures.keepWalk({ folders, found }, this.#tools.clock.now());
    return podUsage(folders, found);
  }

  /** Room on the volumes that are file systems of their own; those that cannot be read are left out. */
  async #mounts(): Promise<ReadonlyMap<string, DiskRoom>> {
    const { dependencies, directories } = this.#tools;
    const mounts = new Map<string, DiskRoom>();
    for (const [name, folder] of ownFileSystems(this.#state(), directories)) {
      const room = await dependencies.diskMeter.room(folder).catch(() => undefined);
      if (room) mounts.set(name, room);
    }
    return mounts;
  }
}
