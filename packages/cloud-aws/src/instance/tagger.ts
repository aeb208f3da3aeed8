import type { Tag } from "@aws-sdk/client-ec2";
import type { Clock } from "@kip/base";
import { checkInstanceTags, CloudError } from "@kip/cloud";
import { Batch } from "../batch.ts";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { callerTags, ownTags } from "../tags.ts";
import type { Instances } from "./instances.ts";

/** Options of {@link Tagger}. */
export interface TaggerOptions {
  readonly ec2: Ec2;
  readonly instances: Instances;
  readonly clock: Clock;
  readonly batchMs: number;
}

type TagAction = "CreateTags" | "DeleteTags";

/** A change of tags of an instance and everything that it was launched with. */
interface TagRequest {
  readonly action: TagAction;
  readonly resources: readonly string[];
  readonly tags: readonly Tag[];
}

/** Maximum number of requests in one batch: EC2 accepts 1000 resources, and an instance has three. */
const mostRequests = 200;
/** EC2 allows 50 tags. Instances have all of the driver's own tags except the one of volumes. */
const mostTags = 50 - (Object.keys(ownTags).length - 1);

/** Changes tags of instances and of their root disks and interfaces. Equal changes of several instances share one call. */
export class Tagger {
  readonly #options: TaggerOptions;
  readonly #batch: Batch<TagRequest, true>;

  constructor(options: TaggerOptions) {
    this.#options = options;
    const { clock, batchMs } = options;
    this.#batch = new Batch({
      clock,
      windowMs: batchMs,
      limit: mostRequests,
      run: async (requests) => {
        const failures = await this.#send(requests);
        return (request) => {
          if (failures.has(request)) throw failures.get(request);
          return true;
        };
      },
    });
  }

  /** @see `CloudDriver.setTags` */
  async setTags(id: string, tags: Readonly<Record<string, string>>): Promise<void> {
    checkInstanceTags(tags);
    const wanted = callerTags(tags);
    const seen = await this.#options.instances.get(id);
    if (!seen || ["terminated", "stopping"].includes(seen.instance.state))
      throw new CloudError("CLOUD_NOT_FOUND", `Cannot tag instance "${id}": it does not exist`);
    const { interfaces, rootVolume, instance } = seen;
    const resources = [id, ...interfaces, ...(rootVolume === undefined ? [] : [rootVolume])];
    const keys = new Set(wanted.map(({ Key }) => Key));
    const unwanted = callerTags(instance.tags).filter(({ Key }) => !keys.has(Key));
    const add: TagRequest = { action: "CreateTags", resources, tags: wanted };
    // Removing tags without values works for any values, and makes the calls for several instances equal.
    const without = unwanted.map(({ Key }) => ({ Key }));
    const remove: TagRequest = { action: "DeleteTags", resources, tags: without };
    const hasRoom = wanted.length + unwanted.length <= mostTags;
    // If the process is killed between the calls, the old tags show that the change is not complete.
    for (const request of hasRoom ? [add, remove] : [remove, add])
      if (request.tags.length > 0) await this.#batch.get(request);
  }

  /** Returns the failures of the failed requests. */
  async #send(requests: readonly TagRequest[]): Promise<ReadonlyMap<TagRequest, unknown>> {
    const alike = Map.groupBy(requests, ({ action, tags }) => JSON.stringify([action, tags]));
    const all = await Promise.all([...alike.values()].map(async (each) => await this.#call(each)));
    return new Map(all.flatMap((failures) => [...failures]));
  }

  /** EC2 tags nothing if it does not know one of the resources. Then the others are sent again without it. */
  async #call(requests: readonly TagRequest[]): Promise<ReadonlyMap<TagRequest, unknown>> {
    const { action, tags } = requests[0] ?? { action: "CreateTags", tags: [] };
    const Resources = requests.flatMap(({ resources }) => resources);
    try {
      await this.#options.ec2.call(
        action,
        { Resources, Tags: [...tags] },
        { purpose: "tag instances" },
      );
      return new Map();
    } catch (error) {
      if (requests.length === 1 || !CloudError.is(error, "CLOUD_NOT_FOUND"))
        return new Map(requests.map((request) => [request, error]));
      const each = await Promise.all(requests.map(async (one) => await this.#call([one])));
      return new Map(each.flatMap((failures) => [...failures]));
    }
  }
}
