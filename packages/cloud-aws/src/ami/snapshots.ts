import { randomUUID } from "node:crypto";
import type * as sdk from "@aws-sdk/client-ec2";
import type { Clock } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { allPages } from "../ec2/all-pages.ts";
import type { Ec2, Ec2CallOptions } from "../ec2/ec2-calls.ts";
import type { DiskBlocks } from "./disk-blocks.ts";
import type { Ebs } from "./ebs.ts";

/** Tags of an image and its snapshot. */
export const imageTags = {
  /** Name that EC2's console shows. */
  name: "Name",
  /** ID of the cell image. */
  image: "KipImage",
  /** Digest of the disk, by which a later build finds the snapshot. */
  disk: "KipImageDisk",
} as const;

/** A snapshot made by a build. */
export interface BuiltSnapshot {
  readonly id: string;
  readonly state: "pending" | "completed" | "error";
  /** Reason of the state in EC2's words. Empty if EC2 gives none. */
  readonly reason: string;
  readonly name: string;
  readonly startedAt: Date | undefined;
}

/** EBS gives up on a pending snapshot if nothing is written for this time, minutes. The minimum. */
const abandonedMinutes = 10;
/** Maximum time for EBS to complete a snapshot, milliseconds. */
const completionLimitMs = 1_800_000;

/** How many responses in a row may lack a snapshot because EC2 lags. */
const mostMissing = 10;

/** Dependencies of {@link Snapshots}. */
export interface SnapshotsOptions {
  readonly ec2: Ec2;
  readonly ebs: Ebs;
  readonly clock: Clock;
  /** Interval of the checks of a snapshot, milliseconds. */
  readonly pollMs: number;
}

/** Snapshots of cell images. */
export class Snapshots {
  readonly #options: SnapshotsOptions;

  constructor(options: SnapshotsOptions) {
    this.#options = options;
  }

  /** All snapshots that builds have made in this account and region, or those of one disk. */
  async list(digest?: string, signal?: AbortSignal): Promise<readonly BuiltSnapshot[]> {
    const filter =
      digest === undefined
        ? { Name: "tag-key", Values: [imageTags.disk] }
        : { Name: `tag:${imageTags.disk}`, Values: [digest] };
    return await this.#describe(filter, { purpose: "list snapshots of images", signal });
  }

  async start(
    disk: DiskBlocks,
    { tags, signal }: { readonly tags: sdk.Tag[]; readonly signal?: AbortSignal | undefined },
  ): Promise<string> {
    const answer = await this.#options.ebs.call(
      "StartSnapshot",
      {
        VolumeSize: disk.sizeGiB,
        Description: "Disk of Kip's cells",
        Tags: tags,
        Timeout: abandonedMinutes,
        // All attempts of this call use the same token, so a lost response does not cause a second snapshot.
        ClientToken: randomUUID(),
      },
      { purpose: "start a snapshot", signal },
    );
    if (answer.SnapshotId !== undefined) return answer.SnapshotId;
    throw new CloudError("CLOUD_UNKNOWN", "Cannot start a snapshot: the answer names none");
  }

  /**
   * Completes a snapshot, and waits until EBS has checked and stored it.
   *
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` if EBS has other blocks than the disk
   */
  async complete(id: string, disk: DiskBlocks, signal?: AbortSignal): Promise<void> {
    const { ebs } = this.#options;
    const purpose = `complete snapshot ${id}`;
    const input = {
      SnapshotId: id,
      ChangedBlocksCount: disk.blocks.length,
      Checksum: disk.checksum,
      ChecksumAlgorithm: "SHA256" as const,
      ChecksumAggregationMethod: "LINEAR" as const,
    };
    try {
      await ebs.call("CompleteSnapshot", input, { purpose, signal });
    } catch (error) {
      // An attempt whose response was lost has completed it, or another build of the same disk has. EBS may still be storing
      // it.
      if (await this.isBeingCompleted(id, signal)) return;
      throw error;
    }
    await this.waitForCompletion(id, { signal });
  }

  /**
   * Whether a call has already completed a snapshot, which then takes no more blocks. EC2 shows the same state until the
   * snapshot is stored, so this waits for up to 24 polls.
   *
   * @throws the signal's reason
   */
  async isBeingCompleted(id: string, signal?: AbortSignal): Promise<boolean> {
    try {
      await this.waitForCompletion(id, { limitMs: 24 * this.#options.pollMs, signal });
      return true;
    } catch {
      signal?.throwIfAborted();
      return false;
    }
  }

  /**
   * Waits until EBS has stored a snapshot that a call has completed.
   *
   * @param options.limitMs milliseconds. @default half an hour
   * @throws {CloudError} `CLOUD_UNKNOWN` if EBS gives up on the snapshot, `CLOUD_NOT_FOUND` if it is gone, `CLOUD_UNAVAILABLE`
   * after the limit
   */
  async waitForCompletion(
    id: string,
    options: { readonly limitMs?: number; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<void> {
    const { limitMs = completionLimitMs, signal } = options;
    const { clock, pollMs } = this.#options;
    const began = clock.monotonic();
    const failure = `Cannot complete snapshot ${id}`;
    for (let missing = 0; ;) {
      const found = await this.#find(id, signal);
      if (found?.state === "completed") return;
      missing = found ? 0 : missing + 1;
      if (missing > mostMissing) throw new CloudError("CLOUD_NOT_FOUND", `${failure}: it is gone`);
      if (found?.state === "error")
        throw new CloudError("CLOUD_UNKNOWN", `${failure}: ${found.reason}`);
      if (clock.monotonic() - began > limitMs)
        throw new CloudError(
          "CLOUD_UNAVAILABLE",
          `${failure}: EBS has not done it within ${Math.round(limitMs / 1000)} s`,
        );
      await clock.sleep(pollMs, signal);
    }
  }

  /** Succeeds if the snapshot is already gone. */
  async delete(id: string, signal?: AbortSignal): Promise<void> {
    const purpose = `delete snapshot ${id}`;
    try {
      await this.#options.ec2.call("DeleteSnapshot", { SnapshotId: id }, { purpose, signal });
    } catch (error) {
      if (!CloudError.is(error, "CLOUD_NOT_FOUND")) throw error;
    }
  }

  async #find(id: string, signal?: AbortSignal): Promise<BuiltSnapshot | undefined> {
    const filter = { Name: "snapshot-id", Values: [id] };
    return (await this.#describe(filter, { purpose: `look at snapshot ${id}`, signal }))[0];
  }

  async #describe(filter: sdk.Filter, options: Ec2CallOptions): Promise<readonly BuiltSnapshot[]> {
    const input = { OwnerIds: ["self"], Filters: [filter], MaxResults: 500 };
    const pages = await allPages(this.#options.ec2, "DescribeSnapshots", input, options);
    return pages.flatMap(({ Snapshots = [] }) => Snapshots).map(toSnapshot);
  }
}

function toSnapshot({
  SnapshotId,
  State,
  StateMessage,
  StartTime,
  Tags,
}: sdk.Snapshot): BuiltSnapshot {
  return {
    id: SnapshotId ?? "",
    // "recoverable" and "recovering" are states of snapshots in a recycle bin. No build continues with those.
    state: State === "pending" || State === "completed" ? State : "error",
    reason: StateMessage ?? "",
    name: Tags?.find(({ Key }) => Key === imageTags.name)?.Value ?? "",
    startedAt: StartTime,
  };
}
