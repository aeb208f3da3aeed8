import type { Instance, InterruptionNotice } from "@kip/cloud";
import type { Instances } from "../instance/instances.ts";

type Callback = (notice: InterruptionNotice) => void;

/**
 * Known interruption notices, from the tags of the instances. All processes see the tags, including processes that start later,
 * and the process that read the message may end.
 */
export class Interruptions {
  readonly #instances: Instances;
  readonly #known = new Map<string, InterruptionNotice>();
  readonly #callbacks = new Set<Callback>();

  constructor(instances: Instances) {
    this.#instances = instances;
    instances.onInterrupted = (instance, endsAt) => this.note(instance, endsAt);
  }

  /** Whether anything listens. */
  get isHeard(): boolean {
    return this.#callbacks.size > 0;
  }

  /** Calls back once for each notice, including known ones. Returns a function that unsubscribes. */
  listen(callback: Callback): () => void {
    const own: Callback = (notice) => callback(notice);
    this.#callbacks.add(own);
    for (const notice of this.#known.values())
      if (this.#instances.isOwn(notice.instance.id))
        queueMicrotask(() => {
          if (this.#callbacks.has(own)) own(notice);
        });
    return () => void this.#callbacks.delete(own);
  }

  /** Records an instance's notice. Ignores a known one, and one with a later end. */
  note(instance: Instance, endsAt: string): void {
    const known = this.#known.get(instance.id);
    if (known && known.endsAt <= endsAt) return;
    for (const id of this.#known.keys()) if (!this.#instances.isOwn(id)) this.#known.delete(id);
    const notice = { instance, endsAt };
    this.#known.set(instance.id, notice);
    for (const callback of this.#callbacks) callback(notice);
  }
}
