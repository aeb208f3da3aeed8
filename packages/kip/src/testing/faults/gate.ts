import { setImmediate } from "node:timers/promises";
import { AgentError } from "@kip/agent-api";
import type { Clock } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { K8sError } from "@kip/k8s-client";

/** The targets of calls from a process of kip. */
export const targets = ["api", "cloud", "agent"] as const;
export type Target = (typeof targets)[number];

/**
 * The effect of a call that fails: it has none; it takes effect and the response is lost; it takes effect some time after the
 * failure; or it has none because another client was first (only for the API), or because the other side is overloaded or
 * refuses it. Otherwise the call succeeds after it took effect
 * twice, or after some time.
 */
export const effects = [
  "none",
  "done",
  "late",
  "conflict",
  "busy",
  "denied",
  "twice",
  "slow",
] as const;
export type Effect = (typeof effects)[number];

/** A fault for future calls to one target. */
export interface CallFault {
  readonly target: Target;
  readonly effect: Effect;
  /** How many calls pass before it. */
  readonly skip: number;
  /** How many calls it affects. */
  readonly calls: number;
  /** For "late", "slow" and "busy", milliseconds. */
  readonly ms: number;
}

/** When a process of kip dies: at this call from then on. */
export interface Death {
  readonly atCall: number;
  readonly effect: "none" | "done" | "late";
}

/** What processes of kip share, and what outlives them. */
export interface GateWorld {
  readonly clock: Clock;
  isAway(target: Target): boolean;
  /** The fault that affects the current call. */
  takeFault(target: Target): CallFault | undefined;
  /** Records that something went wrong now. */
  disturbed(): void;
}

const lateMs = 5000;

/** All calls of one process of kip to the outside go through here. Some fail, and a dead process gets no responses. */
export class Gate {
  /** The process's own clock. Its timers end with the process, and its time of day may be wrong. */
  readonly clock: Clock;
  readonly #world: GateWorld;
  readonly #dead = new AbortController();
  readonly #onDeath = new Set<() => void>();
  #death: Death | undefined;
  #calls = 0;

  constructor(world: GateWorld, skewMs: () => number) {
    this.#world = world;
    const { clock } = world;
    const dead = this.#dead.signal;
    this.clock = {
      now: () => clock.now() + skewMs(),
      monotonic: () => clock.monotonic(),
      sleep: async (ms, signal) => {
        if (dead.aborted) await never();
        const either = signal ? AbortSignal.any([signal, dead]) : dead;
        await clock.sleep(ms, either).catch(async (error: unknown) => {
          if (dead.aborted) await never();
          throw error;
        });
      },
    };
  }

  get isDead(): boolean {
    return this.#dead.signal.aborted;
  }

  /** Called when the process dies. */
  onDeath(callback: () => void): void {
    this.#onDeath.add(callback);
  }

  /** Makes it die at a future call. */
  dieAt(death: Death): void {
    this.#death = death;
    this.#calls = 0;
  }

  /** Ends the process and its connections. */
  kill(): void {
    if (this.isDead) return;
    this.#world.disturbed();
    this.#dead.abort();
    for (const callback of this.#onDeath) callback();
  }

  async call<T>(target: Target, effect: () => T | Promise<T>): Promise<T> {
    if (this.isDead) return await never();
    if (++this.#calls === this.#death?.atCall) return await this.#die(this.#death, effect);
    const outcome = await this.#outcome(target, effect);
    if (this.isDead) return await never();
    await setImmediate();
    if (this.isDead) return await never();
    return outcome();
  }

  async #die<T>({ effect: what }: Death, effect: () => T | Promise<T>): Promise<T> {
    if (what === "done") void attempt(effect);
    if (what === "late") this.#later(effect, lateMs);
    this.kill();
    return await never();
  }

  async #outcome<T>(target: Target, effect: () => T | Promise<T>): Promise<() => T> {
    const world = this.#world;
    const fails = (): never => {
      throw noAnswer(target);
    };
    if (world.isAway(target)) return fails;
    const fault = world.takeFault(target);
    if (!fault) return await attempt(effect);
    world.disturbed();
    switch (fault.effect) {
      case "none":
        return fails;
      case "conflict":
        return target === "api" ? conflicts : fails;
      case "busy":
        return () => {
          throw overloaded(target, fault.ms);
        };
      case "denied":
        return () => {
          throw denied(target);
        };
      case "done":
        await attempt(effect);
        return fails;
      case "late":
        // A connection to an agent keeps its calls in order.
        if (target === "agent") await attempt(effect);
        else this.#later(effect, fault.ms);
        return fails;
      case "twice":
        await attempt(effect);
        return await attempt(effect);
      case "slow":
        await world.clock.sleep(fault.ms);
    }
    return await attempt(effect);
  }

  #later(effect: () => unknown, ms: number): void {
    const { clock } = this.#world;
    void clock.sleep(ms).then(async () => {
      this.#world.disturbed();
      await attempt(effect);
    });
  }
}

function conflicts(): never {
  throw new K8sError("K8S_CONFLICT", "Another client was first", { httpStatus: 409 });
}

async function never(): Promise<never> {
  return await new Promise<never>(() => {});
}

/** The result of a call, including its error. */
async function attempt<T>(effect: () => T | Promise<T>): Promise<() => T> {
  try {
    const value = await effect();
    return () => value;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

function noAnswer(target: Target): Error {
  const message = "The call got no answer";
  if (target === "api") return new K8sError("K8S_UNAVAILABLE", message, { retryable: true });
  if (target === "cloud") return new CloudError("CLOUD_UNAVAILABLE", message);
  return new AgentError("AGENT_UNREACHABLE", message, { retryable: true });
}

function overloaded(target: Target, retryAfterMs: number): Error {
  const options = { retryAfterMs, retryable: true };
  if (target === "api")
    return new K8sError("K8S_TOO_MANY_REQUESTS", "Too many", { ...options, httpStatus: 429 });
  if (target === "cloud") return new CloudError("CLOUD_THROTTLED", "Too many", { retryAfterMs });
  return noAnswer(target);
}

function denied(target: Target): Error {
  if (target === "api") return new K8sError("K8S_FORBIDDEN", "Not allowed", { httpStatus: 403 });
  if (target === "cloud") return new CloudError("CLOUD_AUTH", "Not allowed");
  return noAnswer(target);
}
