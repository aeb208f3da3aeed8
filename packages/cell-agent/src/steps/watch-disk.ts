import { pause } from "@kip/base";
import { exceededLimit, shortage, shortageMessage, smallestLimit } from "../disk/eviction.ts";
import { allFolders, ownFileSystems, podFolders, podUsage } from "../disk/pod-usage.ts";
import type { DiskRoom } from "../disk/disk-meter.ts";
import type { PodUsage } from "../disk/eviction.ts";
import type { EndReason, PodState } from "../state/pod-state.ts";
import { present, type Executor, type StepTools } from "./step-tools.ts";

/**
 * The interval of the kubelet's eviction manager. There is no event for a folder that grows, and a file's owner can move it
 * out of a disk quota.
 */
const intervalMs = 10_000;
/** Grace period of an evicted pod, the kubelet's. */
const graceMs = 1000;
/** After this many checks of the free space alone, the folders are walked through, whatever the checks show. */
const maxChecksWithoutWalk = 30;
/** Time limit of a walk, seconds, and before the pod is evicted from a full disk. */
const limitSeconds = { usual: 600, full: 5 };

/** Watches the pod's disk usage, and ends the pod if it uses too much. */
export const watchDisk: Executor<"watchDisk"> = async (_step, { state, signal }, tools) => {
  const watch = new DiskWatch(tools, state, signal);
  while (await pause(intervalMs, tools.clock, signal)) {
    const reason = await watch.check();
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
  /** The last walk: disk usage of the pod, and of the whole disk, at that time. */
  #last: { readonly podBytes: number; readonly diskBytes: number } | undefined;
  #checksSinceWalk = 0;
  /** Whether a walk has begun. One that fails or takes too long is not repeated at once for readers of the figures. */
  #hasBegun = false;

  constructor(tools: StepTools, state: () => PodState, signal: AbortSignal) {
    this.#tools = tools;
    this.#state = state;
    this.#signal = signal;
  }

  /** Why the pod has to be evicted, if so. As in the kubelet, limits are checked before a full disk. */
  async check(): Promise<EndReason | undefined> {
    const { dependencies, directories } = this.#tools;
    const pod = present(this.#state().desired);
    const room = await dependencies.diskMeter.room(directories.disk);
    const isWanted = this.#tools.diskFigures.isWanted(this.#tools.clock.now());
    this.#tools.diskFigures.keepRooms(
      { disk: room, mounts: isWanted ? await this.#mounts() : new Map() },
      this.#tools.clock.now(),
    );
    const isWalkDue = this.#isWalkDue(
      room.sizeBytes - room.freeBytes,
      smallestLimit(pod),
      isWanted,
    );
    const lack = pod.isCritical === true ? undefined : shortage(room);
    if (!isWalkDue && !lack) return undefined;
    const usage = lack ? await this.#usageOnFullDisk() : await this.#usageUntilFull();
    // The disk is full by now. Another check finds the reason.
    if (!usage) return await this.check();
    this.#last = { podBytes: usage.totalBytes, diskBytes: room.sizeBytes - room.freeBytes };
    const reason = "Evicted";
    const message = exceededLimit(pod, usage);
    if (message !== undefined) return { reason, message };
    return lack && { reason, message: shortageMessage(lack, pod, usage), isDisruption: true };
  }

  /**
   * Whether a limit may have been exceeded since the last walk. No part of the pod can have grown by more than the disk's
   * growth plus what the pod has freed elsewhere. Space that others have freed does not show, so a walk is also due at times.
   * Without a limit, walks are only due for readers of the figures, and no more often.
   */
  #isWalkDue(diskBytes: number, limit: number | undefined, isWanted: boolean): boolean {
    if (limit === undefined && !isWanted) return false;
    const grown = this.#last && this.#last.podBytes + diskBytes - this.#last.diskBytes;
    const isDue = limit === undefined ? !this.#hasBegun : grown === undefined || grown > limit;
    this.#checksSinceWalk = isDue ? maxChecksWithoutWalk : this.#checksSinceWalk + 1;
    if (this.#checksSinceWalk < maxChecksWithoutWalk) return false;
    this.#checksSinceWalk = 0;
    this.#hasBegun = true;
    return true;
  }

  /** Undefined if the disk became full before the walk was over, which is noticed as early as without a walk. */
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

  /** Checks the free space until the signal aborts. */
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

  /** A full disk ends the pod even if its usage cannot be measured. */
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

  /** Space on the volumes with their own file systems. Skips those that cannot be read. */
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
