import type * as sdk from "@aws-sdk/client-ec2";
import { defined, type Clock } from "@kip/base";
import { CloudError, type Volume } from "@kip/cloud";
import { allPages } from "../ec2/all-pages.ts";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { fromTags, ownTags } from "../tags.ts";

export const GiB = 2 ** 30;

/** Options of {@link VolumeStore}. */
export interface VolumeStoreOptions {
  readonly ec2: Ec2;
  readonly owner: string;
  readonly clock: Clock;
  readonly pollMs: number;
  /** Maximum time that EC2's responses may lack a new volume, milliseconds. */
  readonly consistencyMs: number;
}

/** Maximum time for EC2 to attach, detach or enlarge a volume, milliseconds. */
const changeLimitMs = 120_000;

/** Reads the owner's volumes. */
export class VolumeStore {
  readonly #options: VolumeStoreOptions;

  constructor(options: VolumeStoreOptions) {
    this.#options = options;
  }

  async list(): Promise<readonly Volume[]> {
    return await this.#describe([]);
  }

  /** The volume that EC2 has made for a token, which its responses may lack for a while. Undefined if it has been deleted. */
  async made(token: string): Promise<Volume | undefined> {
    const { clock, consistencyMs } = this.#options;
    const began = clock.monotonic();
    for (let pauseMs = 50; ; pauseMs = Math.min(2 * pauseMs, 5000)) {
      const [found] = await this.#describe([{ Name: `tag:${ownTags.volume}`, Values: [token] }]);
      if (found || clock.monotonic() - began > consistencyMs) return found;
      await clock.sleep(pauseMs);
    }
  }

  async find(id: string): Promise<Volume | undefined> {
    return (await this.#describe([{ Name: "volume-id", Values: [id] }]))[0];
  }

  /** Size of any volume, GiB. Undefined if it does not exist. */
  async sizeGiB(id: string): Promise<number | undefined> {
    const found = await this.#call([{ Name: "volume-id", Values: [id] }]);
    return found[0]?.Size;
  }

  /** Repeats `look` until it finds something. */
  async until<T>(purpose: string, look: () => Promise<T | undefined>): Promise<T> {
    const { clock, pollMs } = this.#options;
    const began = clock.monotonic();
    for (;;) {
      const found = await look();
      if (found !== undefined) return found;
      if (clock.monotonic() - began > changeLimitMs)
        throw new CloudError(
          "CLOUD_UNAVAILABLE",
          `Cannot ${purpose}: EC2 has not done it within ${changeLimitMs / 1000} s`,
        );
      await clock.sleep(pollMs);
    }
  }

  async #describe(filters: readonly sdk.Filter[]): Promise<readonly Volume[]> {
    const { owner } = this.#options;
    const found = await this.#call([
      { Name: `tag:${ownTags.owner}`, Values: [owner] },
      { Name: "tag-key", Values: [ownTags.volume] },
      ...filters,
    ]);
    return found.flatMap((each) => toVolume(each) ?? []);
  }

  async #call(filters: readonly sdk.Filter[]): Promise<readonly sdk.Volume[]> {
    const input = { Filters: [...filters], MaxResults: 500 };
    const purpose = "list volumes";
    const pages = await allPages(this.#options.ec2, "DescribeVolumes", input, { purpose });
    return pages.flatMap(({ Volumes = [] }) => Volumes);
  }
}

/** Reads a volume from a response. Undefined if it is being deleted or is not this driver's. */
export function toVolume(answer: sdk.Volume | sdk.CreateVolumeCommandOutput): Volume | undefined {
  const tagged = fromTags(answer.Tags, ownTags.volume);
  const { VolumeId: id, State, Size = 0, Attachments = [] } = answer;
  if (!tagged || id === undefined || State === "deleting" || State === "deleted") return undefined;
  const attachment = Attachments.find((each) => each.State !== "detached");
  return defined({
    id,
    token: tagged.token,
    name: tagged.cell,
    owner: tagged.owner,
    sizeBytes: Size * GiB,
    // An NVMe disk of EBS has this as its serial number.
    serial: id.replace("-", ""),
    attachedTo: attachment?.InstanceId,
    tags: tagged.tags,
  });
}
