import type { Pod } from "@kip/k8s-types";

/**
 * A provider's pods by UID, with implementations of `presence` and `list`. It only lasts as long as the process. A provider
 * whose backend outlives the process should ask the backend instead.
 *
 * @example
 * ```ts
 * import { PodTable, type Pod } from "@kip/virtual-kubelet";
 *
 * const pod: Pod = { metadata: { name: "web", namespace: "default", uid: "1", resourceVersion: "1" }, spec: { containers: [] } };
 * const machines = new PodTable<{ readonly address: string }>();
 * machines.set(pod, { address: "192.0.2.7" });
 * assert.equal(machines.get("1")?.address, "192.0.2.7");
 * assert.equal(machines.presence("2"), "absent");
 * assert.deepEqual(machines.list(), [{ uid: "1", namespace: "default", name: "web" }]);
 * ```
 */
export class PodTable<T> {
  readonly #rows = new Map<string, { readonly pod: Pod; readonly value: T }>();

  /** The value for a pod or its UID. */
  get(pod: Pod | string): T | undefined {
    return this.#rows.get(uidOf(pod))?.value;
  }

  set(pod: Pod, value: T): void {
    this.#rows.set(uidOf(pod), { pod, value });
  }

  delete(pod: Pod | string): void {
    this.#rows.delete(uidOf(pod));
  }

  /** Like `PodProvider.presence`. */
  presence(uid: string): "present" | "absent" {
    return this.#rows.has(uid) ? "present" : "absent";
  }

  /** Like `PodProvider.list`. */
  list(): { uid: string; namespace: string; name: string }[] {
    return [...this.#rows.values()].map(({ pod: { metadata } }) => ({
      uid: metadata.uid,
      namespace: metadata.namespace,
      name: metadata.name,
    }));
  }
}

function uidOf(pod: Pod | string): string {
  return typeof pod === "string" ? pod : pod.metadata.uid;
}
