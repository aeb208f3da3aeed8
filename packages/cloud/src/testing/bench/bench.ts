import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import type { CloudFaults } from "../../faults/cloud-faults.ts";
import type {
  CloudDriver,
  Instance,
  LaunchRequest,
  Volume,
  VolumeRequest,
} from "../../cloud-driver.ts";
import { cloudErrorCode, type CloudErrorCode } from "../../errors.ts";
import { seededRandom, type Random } from "../../simulated/seeded-random.ts";
import type {
  CloudConformanceOptions,
  ConformanceGuest,
  GuestView,
} from "./conformance-options.ts";

/** Facts that are collected once for all clauses. */
export interface BenchFacts {
  readonly cloud: CloudDriver;
  readonly image: string;
  /** Names of the on-demand types, the smallest first. */
  readonly types: readonly string[];
}

/** ID of an instance or volume that never existed. */
export const nowhere = "i-00000000000000000";

/** Helpers for one clause. Removes everything that was created through it. */
export class Bench {
  readonly cloud: CloudDriver;
  readonly options: CloudConformanceOptions;
  /** Draws the same numbers in each run. */
  readonly random: Random;
  readonly #facts: BenchFacts;
  readonly #signal: AbortSignal;
  readonly #tokens = new Set<string>();
  readonly #volumes = new Set<string>();
  readonly #handles: CloudDriver[] = [];

  /** @param signal aborts when the clause has exceeded its time limit */
  constructor(facts: BenchFacts, options: CloudConformanceOptions, signal: AbortSignal) {
    this.cloud = facts.cloud;
    this.#signal = signal;
    this.options = options;
    this.random = seededRandom(options.seed ?? 1);
    this.#facts = facts;
  }

  /** The smallest type. */
  get type(): string {
    return this.#facts.types[0] ?? assert.fail("the cloud offers no type");
  }

  /** The next larger type. */
  get otherType(): string {
    return this.#facts.types[1] ?? assert.fail("the cloud offers one type only");
  }

  get faults(): CloudFaults {
    return this.options.faults ?? assert.fail("no faults");
  }

  get userDataOf(): NonNullable<CloudConformanceOptions["userDataOf"]> {
    return this.options.userDataOf ?? assert.fail("user data cannot be read");
  }

  get guest(): ConformanceGuest {
    return this.options.guest ?? assert.fail("no guest");
  }

  /** A request for the smallest instance. The instance ends after the clause. */
  request(changes: Partial<LaunchRequest> = {}): LaunchRequest {
    const request: LaunchRequest = {
      token: randomUUID(),
      name: "conformance",
      instanceType: this.type,
      launchType: "on-demand",
      image: this.#facts.image,
      rootDiskBytes: 0,
      userData: Buffer.from("#cloud-config\n{}"),
      privateIpOnly: true,
      tags: { purpose: "conformance" },
      ...changes,
    };
    this.#tokens.add(request.token);
    return request;
  }

  async launch(changes: Partial<LaunchRequest> = {}): Promise<Instance> {
    return await this.cloud.launch(this.request(changes));
  }

  /** Launches an instance and waits until it runs. */
  async running(changes: Partial<LaunchRequest> = {}): Promise<Instance> {
    return await this.cloud.waitForRunning((await this.launch(changes)).id);
  }

  async end({ id }: Instance): Promise<void> {
    await this.cloud.terminate(id);
    await this.cloud.waitForTerminated(id);
  }

  async volume(changes: Partial<VolumeRequest> = {}): Promise<Volume> {
    const volume = await this.cloud.createVolume(this.volumeRequest(changes));
    return this.keep(volume);
  }

  volumeRequest(changes: Partial<VolumeRequest> = {}): VolumeRequest {
    const sizeBytes = 4 * 2 ** 20;
    return { token: randomUUID(), name: "conformance", sizeBytes, tags: {}, ...changes };
  }

  /** Deletes a volume after the clause. */
  keep(volume: Volume): Volume {
    this.#volumes.add(volume.id);
    return volume;
  }

  /** The volume, as the cloud lists it. */
  async volumeNow({ id }: Volume, cloud = this.cloud): Promise<Volume | undefined> {
    return (await cloud.listVolumes()).find((volume) => volume.id === id);
  }

  /** The instances of a token, as the cloud lists them. */
  async listed(token: string, cloud = this.cloud): Promise<readonly Instance[]> {
    return (await cloud.list()).filter((instance) => instance.token === token);
  }

  /** Opens another handle, which stands for another process. */
  async open(): Promise<CloudDriver> {
    return this.#opened(await this.options.open());
  }

  async openAsStranger(): Promise<CloudDriver> {
    return this.#opened(await this.options.openAsStranger());
  }

  /** The guest's view, once it satisfies a condition. A guest needs time to notice its hardware. */
  async seen(instance: Instance, isWanted: (view: GuestView) => boolean): Promise<GuestView> {
    return await this.until(async () => {
      const view = await this.guest.look(instance);
      return isWanted(view) ? view : undefined;
    });
  }

  /** Polls where there is no event, such as for text on a console. */
  async until<T>(look: () => Promise<T | undefined>, pauseMs = 50): Promise<T> {
    for (;;) {
      this.#signal.throwIfAborted();
      const found = await look();
      if (found !== undefined) return found;
      await setTimeout(pauseMs, undefined, { signal: this.#signal });
    }
  }

  /** Asserts that the cloud refuses with this code. */
  async refuses(code: CloudErrorCode, work: Promise<unknown>): Promise<void> {
    await assert.rejects(work, (error) => {
      assert.equal(cloudErrorCode(error), code, String(error));
      return true;
    });
  }

  /** Removes everything that the clause has created. */
  async clear(): Promise<void> {
    await this.options.faults?.clear();
    const instances = (await this.cloud.list()).filter(({ token }) => this.#tokens.has(token));
    await Promise.all(instances.map((instance) => this.end(instance)));
    for (const id of this.#volumes) await this.cloud.deleteVolume(id);
    for (const handle of this.#handles) await handle[Symbol.asyncDispose]();
  }

  #opened(handle: CloudDriver): CloudDriver {
    this.#handles.push(handle);
    return handle;
  }
}

/** Opens the driver and collects the facts for all clauses. */
export async function prepareBench(options: CloudConformanceOptions): Promise<BenchFacts> {
  const cloud = await options.open();
  const image = await cloud.resolveImage(options.imageSpec);
  const offers = (await cloud.instanceTypes()).filter(
    ({ pricePerHour }) => pricePerHour["on-demand"] !== undefined,
  );
  const types = offers.sort((a, b) => a.memoryBytes - b.memoryBytes).map(({ name }) => name);
  return { cloud, image, types };
}
