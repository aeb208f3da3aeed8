import { errorText, systemClock, withTimeout, type Clock } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { credentialsOf, findRegion, type ConnectionSettings } from "../connection.ts";
import { openSdkEc2 } from "../ec2/sdk-ec2.ts";
import { openMetadata } from "../network/metadata.ts";
import { amiRequest, type AmiArchitecture } from "./ami-request.ts";
import { Amis } from "./amis.ts";
import { surveyDisk, type DiskBlocks } from "./disk-blocks.ts";
import { openSdkEbs } from "./ebs.ts";
import { imageTags, Snapshots, type BuiltSnapshot } from "./snapshots.ts";
import { uploadBlocks } from "./upload-blocks.ts";

/** Options of {@link buildAmi}. */
export interface BuildAmiOptions extends ConnectionSettings {
  /** A bootable raw disk image. */
  readonly disk: string;
  /** ID of the cell image from which the disk was made: letters, digits and "-". */
  readonly imageId: string;
  readonly architecture: AmiArchitecture;
  /** URL of the EC2 API. @default the region's */
  readonly endpointURL?: string | undefined;
  /** URL of the EBS direct API. @default the region's */
  readonly ebsEndpointURL?: string | undefined;
  /** How many blocks are sent at the same time, 1 or more. @default 16 */
  readonly inFlight?: number | undefined;
  readonly clock?: Clock | undefined;
  /** Interval of the checks of EC2's state, milliseconds. @default 5000 */
  readonly pollMs?: number | undefined;
  /** Delay before the first retry of a call to EBS, milliseconds. @default 500 */
  readonly retryMs?: number | undefined;
  /** Called with a sentence about each step of the build. */
  readonly onProgress?: ((message: string) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An image that instances can boot. */
export interface BuiltAmi {
  readonly id: string;
  readonly name: string;
  readonly region: string;
  /** Whether this build registered the image. False if it already existed. */
  readonly isNew: boolean;
  /** Snapshots of builds that no image uses, left by interrupted builds and removed images. They cost money. */
  readonly leftOvers: readonly BuiltSnapshot[];
}

/** Maximum time for removing a snapshot after a failure, milliseconds. */
const removalLimitMs = 20_000;

/**
 * Makes an EC2 image (AMI) from a disk through the EBS direct API, without an instance. The same disk results in the same
 * image. A build that fails or is aborted removes its snapshot unless the snapshot is complete. If a build is killed, the next
 * build of the same disk continues with its snapshot, and leaves that if it fails or is aborted, too.
 *
 * @throws {CloudError} with a remedy that names the snapshot, if one is left
 * @throws the signal's reason
 */
export async function buildAmi(options: BuildAmiOptions): Promise<BuiltAmi> {
  const { clock = systemClock, pollMs = 5000, signal, environment } = options;
  const region = await findRegion(options, openMetadata(environment));
  const credentials = credentialsOf(options);
  options.onProgress?.("Reading the disk");
  const disk = await surveyDisk(options.disk, signal);
  const connection = { region, credentials };
  const { endpointURL } = options;
  using ec2 = await openSdkEc2({ ...connection, endpointURL, policy: "--image-build" });
  using ebs = await openSdkEbs({
    ...connection,
    clock,
    endpointURL: options.ebsEndpointURL,
    retryMs: options.retryMs,
  });
  const snapshots = new Snapshots({ ec2, ebs, clock, pollMs });
  const amis = new Amis({ ec2, clock, pollMs });
  const name = `kip-cell-${options.imageId}-${disk.digest.slice(0, 8)}-${options.architecture}`;
  const known = await amis.find(name, signal);
  const builder = new AmiBuilder({ ...options, ebs, snapshots, clock, disk, name });
  const id = known ?? (await builder.register(amis));
  options.onProgress?.(`Waiting for image ${id}`);
  await amis.waitUntilAvailable(id, signal);
  const inUse = await amis.snapshotsInUse(signal);
  const leftOvers = (await snapshots.list(undefined, signal)).filter((each) => !inUse.has(each.id));
  return { id, name, region, isNew: known === undefined, leftOvers };
}

type BuilderParts = Omit<BuildAmiOptions, "disk" | "clock"> & {
  readonly disk: DiskBlocks;
  readonly name: string;
  readonly ebs: Parameters<typeof uploadBlocks>[0]["ebs"];
  readonly snapshots: Snapshots;
  readonly clock: Clock;
};

class AmiBuilder {
  readonly #parts: BuilderParts;

  constructor(parts: BuilderParts) {
    this.#parts = parts;
  }

  async register(amis: Amis): Promise<string> {
    const { name, architecture, disk, signal, onProgress } = this.#parts;
    const snapshotId = await this.#snapshot();
    onProgress?.("Registering the image");
    const { sizeGiB } = disk;
    const request = {
      ...amiRequest({ name, architecture, snapshotId, sizeGiB, tags: this.#tags }),
    };
    try {
      return await amis.register({ ...request, Name: name }, signal);
    } catch (error) {
      signal?.throwIfAborted();
      throw withLeftOver(error, snapshotId, "It is complete: the next build of this image uses it");
    }
  }

  /** Returns a complete snapshot of the disk: an existing one, one that an interrupted build began, or a new one. */
  async #snapshot(): Promise<string> {
    const { snapshots, disk, signal, onProgress } = this.#parts;
    const found = await snapshots.list(disk.digest, signal);
    for (const { id } of found.filter(({ state }) => state === "error"))
      await snapshots.delete(id, signal);
    const complete = found.find(({ state }) => state === "completed");
    if (complete) return complete.id;
    const pending = found.find(({ state }) => state === "pending");
    if (pending && (await this.#resume(pending.id))) return pending.id;
    onProgress?.("Starting a snapshot");
    const id = await snapshots.start(disk, { tags: this.#tags, signal });
    try {
      await this.#fill(id);
      return id;
    } catch (error) {
      await this.#remove(id, error);
      throw error;
    }
  }

  /**
   * Continues with the snapshot of a build that was interrupted or still runs: both builds write the same blocks. Returns false
   * if the snapshot cannot be used.
   */
  async #resume(id: string): Promise<boolean> {
    const { snapshots, disk, signal, onProgress } = this.#parts;
    onProgress?.(`Going on with snapshot ${id} of an interrupted build`);
    try {
      await this.#fill(id);
      return true;
    } catch (error) {
      const isUnusable =
        CloudError.is(error, "CLOUD_NOT_FOUND") || CloudError.is(error, "CLOUD_INVALID_REQUEST");
      if (signal?.aborted || !isUnusable)
        throw withLeftOver(error, id, "The next build of this image goes on with it");
      // EBS has given up on it in the meantime, or the other build has completed it.
      const now = (await snapshots.list(disk.digest, signal)).find((each) => each.id === id);
      if (now?.state === "completed") return true;
      if (now?.state === "pending" && (await snapshots.isBeingCompleted(id, signal))) return true;
      if (now) await snapshots.delete(id, signal);
      return false;
    }
  }

  async #fill(id: string): Promise<void> {
    const { ebs, snapshots, disk, inFlight = 16, signal, onProgress } = this.#parts;
    const all = disk.blocks.length;
    const onBlock = (done: number): void =>
      onProgress?.(`Uploading: ${done / 2} of ${all / 2} MiB, snapshot ${id}`);
    await uploadBlocks({ ebs, snapshotId: id, disk, inFlight, signal, onBlock });
    onProgress?.(`Waiting for snapshot ${id}`);
    await snapshots.complete(id, disk, signal);
  }

  /**
   * Removes a snapshot after a failure, which may be the signal's abort. @throws the failure, and how to remove the snapshot if
   * it could not be removed
   */
  async #remove(id: string, failure: unknown): Promise<void> {
    const { snapshots, clock } = this.#parts;
    const remove = async (signal: AbortSignal) => await snapshots.delete(id, signal);
    await withTimeout(remove, { limitMs: removalLimitMs, clock }).catch((cause: unknown) => {
      throw withLeftOver(failure, id, `It could not be removed: ${errorText(cause)}`);
    });
  }

  get #tags() {
    const { name, imageId, disk } = this.#parts;
    return [
      { Key: imageTags.name, Value: name },
      { Key: imageTags.image, Value: imageId },
      { Key: imageTags.disk, Value: disk.digest },
    ];
  }
}

/** The failure, with the snapshot that is left and how to remove it. */
function withLeftOver(failure: unknown, id: string, why: string): CloudError {
  const code = CloudError.is(failure) ? failure.code : "CLOUD_UNKNOWN";
  const remedies = [
    CloudError.is(failure) ? failure.remedy : undefined,
    `Snapshot ${id} is left and costs money. ${why}`,
    `To remove it: aws ec2 delete-snapshot --snapshot-id ${id}`,
  ];
  return new CloudError(code, errorText(failure), {
    cause: failure,
    remedy: remedies.filter((each) => each !== undefined).join("\n"),
  });
}
