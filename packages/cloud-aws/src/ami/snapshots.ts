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
  /** What the console of EC2 shows. */
  name: "Name",
  /** ID of the cell image. */
  image: "KipImage",
  /** Digest of the disk, by which a later build finds the snapshot. */
  disk: "KipImageDisk",
} as const;

/** A snapshot that a build has made. */
export interface BuiltSnapshot {
  readonly id: string;
  readonly state: "pending" | "completed" | "error";
  /** Why it is in the state, in EC2's words; empty if it says nothing. */
  readonly reason: string;
  readonly name: string;
  readonly startedAt: Date | undefined;
}

/** EBS gives a pending snapshot up if nothing is written for so long, minutes; its shortest. */
const abandonedMinutes = 10;
/** Longest that EBS may take to complete a snapshot, milliseconds. */
const completionLimitMs = 1_800_000;

/** So many answers in a row may lack a snapshot: EC2's lag. */
const mostMissing = 10;

/** What {@link Snapshots} works with. */
export interface SnapshotsOptions {
  readonly ec2: Ec2;
  readonly ebs: Ebs;
  readonly clock: Clock;
  /** Between two looks at a snapshot, milliseconds. */
  readonly pollMs: number;
}

/** Snapshots of cell images. */
export class Snapshots {
  readonly #options: SnapshotsOptions;

  constructor(options: SnapshotsOptions) {
    this.#options = options;
  }

  /** All that builds have made in this account and region, or those of one disk. */
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
        // One for all attempts of this call: a lost answer does not make a second snapshot.
        ClientToken: randomUUID(),
      },
      { purpose: "start a snapshot", signal },
    );
    if (answer.SnapshotId !== undefined) return answer.SnapshotId;
    throw new CloudError("CLOUD_UNKNOWN", "Cannot start a snapshot: the answer names none");
  }

  /**
   * Seals a snapshot, and waits until EBS has checked and stored it.
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
      // Sealed by an attempt whose answer was lost, or by another build of the same disk: EBS may still be storing it.
      if (await this.isBeingCompleted(id, signal)) return;
      throw error;
    }
    await this.waitForCompletion(id, { signal });
  }

  /**
   * Whether a snapshot has been sealed already, takes no more blocks therefore, and is completed now, or within 24 polls: nothing but that tells it from
   * one that is not sealed.
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
   * Waits for a snapshot that is sealed.
   *
   * @param options.limitMs milliseconds. @default half an hour
   * @throws {CloudError} `CLOUD_UNKNOWN` if EBS gives the snapshot up, `CLOUD_NOT_FOUND` if it is gone, `CLOUD_UNAVAILABLE` after the limit
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

  /** Succeeds if it is gone already. */
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
    // "recoverable" and "recovering" are states of a recycle bin's snapshots, which no build goes on with.
    state: State === "pending" || State === "completed" ? State : "error",
    reason: StateMessage ?? "",
    name: Tags?.find(({ Key }) => Key === imageTags.name)?.Value ?? "",
    startedAt: StartTime,
  };
}
