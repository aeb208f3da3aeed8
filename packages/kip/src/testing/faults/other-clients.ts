import { wrapOperations, type CloudDriver, type Instance } from "@kip/cloud";
import { paths } from "@kip/k8s-client";
import type { ApiServer, StoredObject } from "./api-server.ts";
import type { Machine } from "./machines.ts";

const finalizer = "example.com/kept";

/** Another client keeps an object by a finalizer, unless its deletion was requested. */
export async function hold({ client }: ApiServer, { metadata }: StoredObject): Promise<void> {
  if (metadata.deletionTimestamp !== undefined) return;
  const finalizers = [...new Set([...(metadata.finalizers ?? []), finalizer])];
  await client.patch(pathOf(metadata), { metadata: { finalizers } }, "merge");
}

/** The other client removes all its finalizers. */
export async function release({ client }: ApiServer, all: readonly StoredObject[]): Promise<void> {
  for (const { metadata } of all) {
    const { finalizers = [] } = metadata;
    if (!finalizers.includes(finalizer)) continue;
    const others = finalizers.filter((each) => each !== finalizer);
    await client.patch(pathOf(metadata), { metadata: { finalizers: others } }, "merge");
  }
}

function pathOf({ namespace, name }: StoredObject["metadata"]): string {
  return namespace === undefined ? paths.cells(name) : paths.pods(namespace, name);
}

/** Instances that another client of the cloud has stopped. They run nothing, and exist until they are terminated. */
export class StoppedInstances {
  readonly #ids = new Set<string>();

  stop(machine: Machine): void {
    this.#ids.add(machine.instance.id);
    machine.reboot();
    machine.setReachable(false);
  }

  has({ instance }: Machine): boolean {
    return this.#ids.has(instance.id);
  }

  /** A driver that reports these instances as stopped, and is otherwise unchanged. */
  seenBy(driver: CloudDriver): CloudDriver {
    const seen = (instance: Instance): Instance =>
      this.#ids.has(instance.id) ? { ...instance, state: "stopping" } : instance;
    return wrapOperations(driver, ["describe", "list"], async (_operation, call, args) => {
      const answer: unknown = await call(...args);
      if (Array.isArray(answer)) return (answer as Instance[]).map(seen); // of list
      return answer && seen(answer as Instance); // of describe
    });
  }
}
