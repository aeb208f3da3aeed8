import { errorText, untilAborted, withTimeout, type LogFields, type Logger } from "@kip/base";
import { CloudError, type LaunchImages } from "@kip/cloud";
import { availableMemoryBytes, freeDiskBytes, readBootId } from "../host/host-facts.ts";
import type { ResolvedLocalCloudOptions } from "../options/local-cloud-options.ts";
import { MachineError, reasonOf } from "../host/machine-error.ts";
import type { LocalNetwork } from "../network/local-network.ts";
import type { MachineStore } from "../machine/machine-store.ts";
import { tapOf } from "../qemu/qemu-arguments.ts";
import { buildTemplate, hashFiles } from "./build-template.ts";
import { ExcludedTemplates } from "./excluded-templates.ts";
import type { ImagePreload } from "./image-preload.ts";
import { bootsInstead, TemplateNotices } from "./template-notices.ts";
import { findDamage, type TemplateFiles, type TemplateRecord } from "./template-record.ts";
import {
  templateFacts,
  templateKey,
  withoutImages,
  type MachineShape,
  type TemplateFacts,
} from "./template-shape.ts";
import { TemplateStore } from "./template-store.ts";

/** Time limit for a build, milliseconds. */
const buildLimitMs = 300_000;
/** Disk space that a build leaves free, bytes. Running machines may need it in the meantime. */
const diskReserveBytes = 256 * 2 ** 20;
/** Most templates that are being built or waiting. Further requests are dropped and must be repeated. */
const buildsAtMost = 4;
/** How many copies of a template may fail before no other template is built in its place. */
const failureLimit = 2;

/** A template from which a machine can be made. */
export interface UsableTemplate {
  readonly key: string;
  /** Distinguishes it from an earlier one with the same key. */
  readonly created: string;
  readonly files: TemplateFiles;
}

/**
 * The templates of one state folder, as seen by one process. If there is any doubt about a template, machines boot. A template
 * only saves time.
 */
export class Templates {
  readonly #options: ResolvedLocalCloudOptions;
  readonly #machines: MachineStore;
  readonly #network: LocalNetwork;
  readonly #store: TemplateStore;
  readonly #logger: Logger;
  readonly #notices: TemplateNotices;
  /** Background builds, by key. */
  readonly #builds = new Map<string, Promise<void>>();
  readonly #checks = new Map<string, Promise<void>>();
  readonly #excluded: ExcludedTemplates;
  readonly #failures = new Map<string, number>();
  /** Keys without a template for which the reason was already examined. */
  readonly #explained = new Set<string>();
  #abort = new AbortController();
  #isClosed = false;

  constructor(options: ResolvedLocalCloudOptions, machines: MachineStore, network: LocalNetwork) {
    this.#options = options;
    this.#network = network;
    this.#machines = machines;
    this.#store = new TemplateStore(options.templatesDir);
    this.#logger = options.logger;
    this.#notices = new TemplateNotices(options.logger);
    this.#excluded = new ExcludedTemplates(options.clock);
  }

  /** Removes what killed processes have left. */
  async open(): Promise<void> {
    const device = tapOf(this.#network.plan.preloadSlot);
    await this.#store.open(await this.#inUse(), async () => await this.#network.removeTap(device));
  }

  /** The template for machines of this shape, if it exists and is valid. */
  async find(shape: MachineShape): Promise<UsableTemplate | undefined> {
    if (!this.#isWanted(shape)) return undefined;
    const facts = await templateFacts(shape);
    const key = templateKey(facts);
    const files = this.#store.files(key);
    const record = await this.#read(key);
    if (!record) {
      if (!shape.images) await this.#explainMiss(key, facts);
      return undefined;
    }
    const damage = await findDamage(record, files);
    if (damage !== undefined) {
      await this.setAside(key, `its ${damage}`);
      return undefined;
    }
    if (record.verifiedBootId !== (await readBootId())) {
      this.#verify(record);
      return undefined;
    }
    await this.#store.touch(key, this.#options.clock.now()).catch(() => {}); // removed in the meantime
    return { key, created: record.created, files };
  }

  /**
   * Builds a template for this shape in the background, if there is none. Does nothing if several others are already being
   * built.
   */
  want(shape: MachineShape): void {
    if (!this.#isWanted(shape)) return;
    // Failures are logged where they happen.
    this.#buildOnce(shape, buildsAtMost).catch(() => {});
  }

  /**
   * Builds a template for this shape if there is none.
   *
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` if it is impossible, `CLOUD_UNAVAILABLE` if it is impossible now
   */
  async prepare(shape: MachineShape, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    if (!this.#isWanted(shape)) {
      throw new CloudError(
        "CLOUD_INVALID_REQUEST",
        `Cannot make a template of image "${shape.image.id}": templates are switched off, or the image knows of none`,
      );
    }
    const key = templateKey(await templateFacts(shape));
    await this.#checks.get(key);
    if (await this.find(shape)) return;
    await this.#checks.get(key);
    await untilAborted(this.#buildOnce(shape), signal);
  }

  /**
   * Call this when a copy of the template failed to start. If several copies fail at the same time, only the first one counts.
   */
  async reportFailure(
    { key, created }: UsableTemplate,
    reason: string,
    console: string,
  ): Promise<void> {
    if ((await this.#read(key))?.created !== created) return;
    const count = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, count);
    await this.setAside(key, `a copy of it did not start: ${reason}`, { console });
    if (count < failureLimit) return;
    this.#excluded.add(key);
    this.#notices.givenUp(key, count);
  }

  /** Takes a template out of use and logs the reason. */
  async setAside(key: string, reason: string, fields: LogFields = {}): Promise<void> {
    this.#notices.setAside(key, reason, fields);
    await this.#store.setAside(key, (await this.#inUse()).has(key));
  }

  /** Aborts builds in all processes. */
  async abort(): Promise<void> {
    this.#abort.abort(new CloudError("CLOUD_UNAVAILABLE", "Cannot make a template: kip ends"));
    await Promise.allSettled([...this.#builds.values(), ...this.#checks.values()]);
    this.#abort = new AbortController();
  }

  /** Aborts builds of other processes. */
  async removeDrafts(): Promise<void> {
    await this.#store.removeDrafts();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.abort();
  }

  #isWanted(shape: MachineShape): boolean {
    const isPossible = shape.image.isTemplate && shape.qemu.text !== "";
    return this.#options.templates && isPossible && !this.#isClosed;
  }

  async #read(key: string): Promise<TemplateRecord | undefined> {
    try {
      const record = await this.#store.read(key);
      if (record && record.key !== key) throw new RangeError("it has another key");
      return record;
    } catch (error) {
      await this.setAside(key, `its description cannot be read: ${errorText(error)}`);
      return undefined;
    }
  }

  /** Compares contents with their hashes, because the host was rebooted since the last check. */
  #verify(record: TemplateRecord): void {
    const { key } = record;
    if (this.#checks.has(key)) return;
    const files = this.#store.files(key);
    const { signal } = this.#abort;
    const check = async (): Promise<void> => {
      const [memory, disk] = await hashFiles([files.memory, files.disk], signal);
      if (memory !== record.memory.sha256) await this.setAside(key, "its memory has changed");
      else if (disk !== record.disk.sha256) await this.setAside(key, "its disk has changed");
      else await this.#store.write(files, { ...record, verifiedBootId: await readBootId() });
    };
    const work = check()
      .catch((error: unknown) => {
        if (!signal.aborted)
          this.#logger.debug("Could not verify a machine template", { key, err: error });
      })
      .finally(() => this.#checks.delete(key));
    this.#checks.set(key, work);
  }

  /** @param most does nothing if this many others are already being built */
  async #buildOnce(shape: MachineShape, most = Infinity): Promise<void> {
    const facts = await templateFacts(shape);
    const key = templateKey(facts);
    if (this.#checks.has(key)) return;
    let build = this.#builds.get(key);
    if (!build) {
      if (this.#builds.size >= most) return;
      build = this.#build(key, facts, shape).finally(() => this.#builds.delete(key));
      build.catch(() => {}); // callers that wait get the error
      this.#builds.set(key, build);
    }
    await build;
  }

  async #build(key: string, facts: TemplateFacts, shape: MachineShape): Promise<void> {
    if (this.#excluded.has(key))
      throw new MachineError("Cannot make a template", "it failed before", {
        remedy: bootsInstead,
      });
    const { clock } = this.#options;
    const { signal } = this.#abort;
    if (shape.images) await this.prepare(withoutImages(shape), signal);
    await using _lock = await this.#store.lock(signal);
    if (await this.#read(key)) return; // another process was first
    await this.#requireRoom(key, shape);
    const started = clock.monotonic();
    await this.#make(key, facts, shape);
    this.#logger.info("Machine template made", {
      template: key,
      image: shape.image.id,
      cpus: shape.cpus,
      memoryBytes: shape.memoryBytes,
      images: shape.images?.references,
      durationMs: Math.round(clock.monotonic() - started),
    });
    await this.#collect(key);
  }

  async #make(key: string, facts: TemplateFacts, shape: MachineShape): Promise<void> {
    const { clock, firstUserId, namespace } = this.#options;
    const { signal } = this.#abort;
    const problem = "Cannot make a template";
    let build: Promise<void> | undefined;
    let isLate = false;
    try {
      const preload = shape.images && (await this.#preload(shape, shape.images));
      const created = new Date(clock.now()).toISOString();
      const groupPrefix = `kip-${namespace}-`;
      const options = { key, facts, shape, store: this.#store, firstUserId, groupPrefix, created };
      const tooLate = (): MachineError => {
        isLate = true;
        return new MachineError(problem, `it took more than ${buildLimitMs / 1000} s`);
      };
      await withTimeout(
        async (limit) => await (build = buildTemplate({ ...options, preload, signal: limit })),
        { limitMs: buildLimitMs, clock, signal, error: tooLate },
      );
    } catch (error) {
      await build?.catch(() => {}); // it cleans up on its own
      signal.throwIfAborted();
      if (isLate) this.#excluded.postpone(key);
      else this.#excluded.add(key);
      const console = error instanceof MachineError ? error.console : undefined;
      this.#notices.failed(key, reasonOf(error), { isLate, console });
      throw error;
    }
  }

  /** The data for making a template with images from one without. */
  async #preload(shape: MachineShape, images: LaunchImages): Promise<ImagePreload> {
    const base = await this.find(withoutImages(shape));
    if (!base) throw new MachineError("Cannot make a template", "its base is gone");
    return { network: this.#network, base: base.files, images };
  }

  async #collect(made: string): Promise<void> {
    const removed = await this.#store.collect(await this.#inUse(), this.#options.templateBytes);
    for (const key of removed) this.#logger.info("Machine template removed", { template: key });
    if (!removed.includes(made)) return;
    this.#excluded.add(made);
    this.#notices.tooBig(made);
  }

  async #requireRoom(key: string, shape: MachineShape): Promise<void> {
    try {
      await checkRoom(shape, this.#options.templatesDir);
    } catch (error) {
      this.#notices.noRoom(key, errorText(error));
      throw error;
    }
  }

  /** If a template only differs in facts about the host, logs that: something was updated. */
  async #explainMiss(key: string, facts: TemplateFacts): Promise<void> {
    if (this.#explained.has(key)) return;
    this.#explained.add(key);
    const sameSize = (other: TemplateFacts): boolean =>
      other["images"] === undefined &&
      ["cpus", "memoryBytes", "rootDiskBytes"].every((name) => other[name] === facts[name]);
    const other = (await this.#store.readAll()).find((record) => sameSize(record.facts));
    if (!other) return;
    const changed = Object.keys(facts).filter((name) => other.facts[name] !== facts[name]);
    this.#notices.missed(key, changed);
  }

  async #inUse(): Promise<ReadonlySet<string>> {
    const records = await this.#machines.readAll();
    const living = records.filter((record) => record.state !== "ended");
    return new Set(living.map(({ template }) => template).filter((key) => key !== undefined));
  }
}

/** @throws {CloudError} `CLOUD_NO_CAPACITY` */
async function checkRoom(shape: MachineShape, folder: string): Promise<void> {
  const [memory, disk] = await Promise.all([availableMemoryBytes(), freeDiskBytes(folder)]);
  const subject = "Cannot make a template";
  if (memory < shape.memoryBytes)
    throw new CloudError("CLOUD_NO_CAPACITY", `${subject}: too little memory is free`);
  if (disk < shape.memoryBytes + diskReserveBytes)
    throw new CloudError("CLOUD_NO_CAPACITY", `${subject}: too little disk is free`);
}
