import { untilAborted } from "@kip/base";
import type { Instance, InterruptionNotice, LaunchRequest } from "../cloud-driver.ts";
import { CloudError } from "../errors.ts";
import { randomHex, type Random } from "./seeded-random.ts";
import type { ResolvedSimulatedCloudOptions, TimeRange } from "./simulated-cloud-options.ts";

/** How long the console of an instance that ended by itself is kept, milliseconds. */
const endedKeptMs = 60 * 60 * 1000;

/** Callbacks for the instances of one owner. */
export interface MachineListener {
  readonly owner: string;
  readonly onEnded: (instance: Instance) => void;
  readonly onNotice: (notice: InterruptionNotice) => void;
}

interface Machine {
  instance: Instance;
  readonly slot: number;
  rootDiskBytes: number;
  console: string;
  /** Set once the instance got a notice. */
  endsAt?: string | undefined;
  /** Aborts all scheduled events of this machine. */
  readonly future: AbortController;
  shutDown?: (() => void) | undefined;
}

interface EndedMachine {
  readonly owner: string;
  readonly console: string;
  readonly at: number;
}

/** The instances of a simulated cloud, of all owners, and their events. */
export class SimulatedMachines {
  /** Called with each ended instance, before the listeners are called. */
  onGone: (instanceId: string) => void = () => {};
  readonly #options: ResolvedSimulatedCloudOptions;
  readonly #random: Random;
  readonly #machines = new Map<string, Machine>();
  readonly #byToken = new Map<string, Machine>();
  /** What `list` and `describe` return: the present state, or an older one. */
  readonly #shown = new Map<string, Instance>();
  readonly #ended = new Map<string, EndedMachine>();
  readonly #listeners = new Set<MachineListener>();
  readonly #changes = new Map<string, PromiseWithResolvers<void>>();
  readonly #freeSlots: number[] = [];
  #slots = 0;

  constructor(options: ResolvedSimulatedCloudOptions, random: Random) {
    this.#options = options;
    this.#random = random;
  }

  /** An owner's instances, as `list` returns them. */
  list(owner: string): readonly Instance[] {
    return [...this.#shown.values()].filter((instance) => instance.owner === owner);
  }

  /** An instance, as `describe` returns it. */
  describe(owner: string, id: string): Instance | undefined {
    const instance = this.#shown.get(id);
    return instance?.owner === owner ? instance : undefined;
  }

  /** The present state of an instance. Undefined once it has ended. */
  current(owner: string, id: string): Instance | undefined {
    const instance = this.#machines.get(id)?.instance;
    return instance?.owner === owner ? instance : undefined;
  }

  /** The present state of the instance with a token. */
  ofToken(owner: string, token: string): Instance | undefined {
    return this.#byToken.get(tokenKey(owner, token))?.instance;
  }

  /** Size of the root disk, bytes; undefined once the instance has ended. */
  rootDiskBytes(id: string): number | undefined {
    return this.#machines.get(id)?.rootDiskBytes;
  }

  /** Makes the root disk at least this large, bytes. */
  growRootDisk(id: string, sizeBytes: number): void {
    const machine = this.#known(id);
    machine.rootDiskBytes = Math.max(machine.rootDiskBytes, sizeBytes);
  }

  setTags(id: string, tags: Readonly<Record<string, string>>): void {
    this.#change(this.#known(id), { tags: { ...tags } });
  }

  console(owner: string, id: string): string | undefined {
    const found = this.#machines.get(id);
    if (found) return found.instance.owner === owner ? found.console : undefined;
    const ended = this.#ended.get(id);
    return ended?.owner === owner ? ended.console : undefined;
  }

  /** Starts an instance for a request that was already checked. */
  add(owner: string, request: LaunchRequest, rootDiskBytes: number): Instance {
    if (this.#count(owner) >= this.#options.maxInstances) {
      const limit = `the limit of ${this.#options.maxInstances} instances is reached`;
      throw new CloudError("CLOUD_QUOTA", `Cannot start an instance: ${limit}`);
    }
    const { token, name, instanceType, launchType, tags, privateIpOnly, userData } = request;
    const slot = this.#freeSlots.pop() ?? this.#slots++;
    const instance: Instance = {
      id: `i-${randomHex(this.#random, 17)}`,
      token,
      name,
      owner,
      instanceType,
      launchType,
      state: "pending",
      ...this.#options.addresses(slot),
      publicIp: privateIpOnly ? undefined : publicAddress(slot),
      launchedAt: this.#timeIn(0),
      tags: { ...tags },
    };
    const machine: Machine = {
      instance,
      slot,
      rootDiskBytes,
      console: "",
      future: new AbortController(),
    };
    this.#machines.set(instance.id, machine);
    this.#byToken.set(tokenKey(owner, token), machine);
    this.#show(instance);
    this.#later(machine, this.#draw(this.#options.startMs), () => this.#run(machine, userData));
    return instance;
  }

  /** Starts to end an instance on request. */
  stop(id: string): void {
    const machine = this.#machines.get(id);
    if (!machine || machine.instance.state === "stopping") return;
    machine.future.abort();
    this.#change(machine, { state: "stopping" });
    const stopMs = this.#draw(this.#options.stopMs);
    this.#options.clock.sleep(stopMs).then(
      () => this.#remove(machine),
      () => {},
    );
  }

  /** Ends an instance at once, without a request. */
  end(id: string, reason: string): void {
    const machine = this.#known(id);
    const wasWanted = machine.instance.state !== "stopping";
    machine.future.abort();
    this.#change(machine, { state: "terminated", stateReason: reason });
    this.#keepConsole(machine);
    this.#remove(machine);
    if (!wasWanted) return;
    for (const listener of this.#listenersOf(machine)) listener.onEnded(machine.instance);
  }

  /** Gives notice that the cloud takes an instance back, and ends it later. */
  interrupt(id: string, noticeMs: number): void {
    const machine = this.#known(id);
    if (machine.instance.state === "stopping") return;
    machine.endsAt = this.#timeIn(noticeMs);
    for (const listener of this.#listenersOf(machine)) listener.onNotice(noticeOf(machine));
    this.#later(machine, noticeMs, () => this.end(id, "The cloud has taken the instance back"));
  }

  /** The notices for an owner's instances that are still running. */
  notices(owner: string): readonly InterruptionNotice[] {
    return [...this.#machines.values()]
      .filter(({ instance }) => instance.owner === owner && instance.state !== "stopping")
      .flatMap((machine) => (machine.endsAt === undefined ? [] : [noticeOf(machine)]));
  }

  listen(listener: MachineListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Resolves at the instance's next event. */
  async changed(id: string, signal: AbortSignal): Promise<void> {
    const change = this.#changes.get(id) ?? Promise.withResolvers<void>();
    this.#changes.set(id, change);
    await untilAborted(change.promise, signal);
  }

  /** @param userData not kept afterwards, to save memory in a process with thousands of machines */
  #run(machine: Machine, userData: Uint8Array): void {
    this.#change(machine, { state: "running" });
    const { instance } = machine;
    const write = (text: string): void => void (machine.console += text);
    write(`Simulated instance ${instance.id} (${instance.name}) runs\n`);
    machine.shutDown = this.#options.boot({ instance, userData, write });
  }

  #remove(machine: Machine): void {
    const { id, owner, token } = machine.instance;
    if (!this.#machines.delete(id)) return;
    const key = tokenKey(owner, token);
    if (this.#byToken.get(key) === machine) this.#byToken.delete(key);
    this.#freeSlots.push(machine.slot);
    machine.shutDown?.();
    this.onGone(id);
    this.#hide(id);
    this.#wake(id);
  }

  #keepConsole(machine: Machine): void {
    const now = this.#options.clock.now();
    for (const [id, { at }] of this.#ended) if (at + endedKeptMs < now) this.#ended.delete(id);
    const { id, owner } = machine.instance;
    this.#ended.set(id, { owner, console: machine.console, at: now });
  }

  #change(machine: Machine, change: Partial<Instance>): void {
    machine.instance = { ...machine.instance, ...change };
    if (machine.instance.state !== "terminated") this.#show(machine.instance);
    this.#wake(machine.instance.id);
  }

  #wake(id: string): void {
    this.#changes.get(id)?.resolve();
    this.#changes.delete(id);
  }

  #show(instance: Instance): void {
    this.#afterLag(() => this.#shown.set(instance.id, instance));
  }

  #hide(id: string): void {
    this.#afterLag(() => this.#shown.delete(id));
  }

  #afterLag(work: () => void): void {
    const { lagMs, clock } = this.#options;
    if (lagMs === 0) work();
    else clock.sleep(lagMs).then(work, () => {});
  }

  #later(machine: Machine, ms: number, work: () => void): void {
    this.#options.clock.sleep(ms, machine.future.signal).then(work, () => {}); // the machine has ended
  }

  #known(id: string): Machine {
    const machine = this.#machines.get(id);
    if (machine) return machine;
    throw new CloudError("CLOUD_NOT_FOUND", `Cannot find instance "${id}"`);
  }

  #count(owner: string): number {
    if (this.#options.maxInstances === Infinity) return 0; // without a limit, the count is not needed
    return [...this.#machines.values()].filter(({ instance }) => instance.owner === owner).length;
  }

  #listenersOf({ instance }: Machine): readonly MachineListener[] {
    return [...this.#listeners].filter(({ owner }) => owner === instance.owner);
  }

  #draw({ minMs, maxMs }: TimeRange): number {
    return minMs + this.#random() * (maxMs - minMs);
  }

  #timeIn(ms: number): string {
    return new Date(this.#options.clock.now() + ms).toISOString();
  }
}

function tokenKey(owner: string, token: string): string {
  return `${owner}\0${token}`;
}

function noticeOf({ instance, endsAt = "" }: Machine): InterruptionNotice {
  return { instance, endsAt };
}

/** From 100.64.0.0/10, which is not routed. */
function publicAddress(slot: number): string {
  return ["100", 64 | ((slot >> 16) & 0x3f), (slot >> 8) & 0xff, slot & 0xff].join(".");
}
