import type { Pod } from "@kip/k8s-types";
import type { PolicyIndex } from "../policies/policy-index.ts";
import type { PodPolicy } from "../policies/pod-policy.ts";
import { fittingPolicy, isClosedIn, type Direction } from "../views/fitting-policy.ts";

/** The policy of a pod on its cell, with the directions that have more rules than a cell accepts. */
export type KnownPolicy = PodPolicy & { readonly tooLong: readonly Direction[] };

/**
 * The policies of the pods in a question. Each is computed only once, because a Service may route to thousands of pods. The objects must not
 * change meanwhile.
 */
export class PodPolicies {
  readonly #index: PolicyIndex;
  readonly #pods: readonly Pod[];
  /** By the UID of the pod. */
  readonly #known = new Map<string, KnownPolicy | "unreadable" | undefined>();
  /** Nodes and namespaces whose policies are already counted in the budget. */
  readonly #charged = new Set<string>();
  readonly #addresses = new Map<string, ReadonlySet<string>>();

  /**
   * @param index contains all objects
   * @param pods all pods of the cluster that have not ended
   */
  constructor(index: PolicyIndex, pods: readonly Pod[]) {
    this.#index = index;
    this.#pods = pods;
  }

  /** The policy of a pod. Undefined for an unknown pod. */
  of(pod: Pod): KnownPolicy | "unreadable" | undefined {
    const { uid } = pod.metadata;
    if (!this.#known.has(uid)) this.#known.set(uid, this.#find(pod));
    return this.#known.get(uid);
  }

  /** Addresses of a group that a policy names. */
  addresses(group: string): ReadonlySet<string> {
    const known = this.#addresses.get(group) ?? new Set(this.#index.groups.addresses(group));
    this.#addresses.set(group, known);
    return known;
  }

  #find(pod: Pod): KnownPolicy | "unreadable" | undefined {
    let policy: PodPolicy | undefined;
    try {
      this.#charge(pod);
      policy = this.#index.policyOf(pod.metadata.uid);
    } catch {
      return "unreadable"; // cells are closed then
    }
    if (!policy) return undefined;
    const { view: wanted } = policy;
    const { policy: view } = fittingPolicy(wanted, this.#index.groups);
    const tooLong = (["ingress", "egress"] as const).filter((direction) =>
      isClosedIn(direction, { wanted, fitting: view }),
    );
    return { ...policy, view, tooLong };
  }

  /** Counts the policies of all pods of the node in the namespace, because they share its budget. */
  #charge({ metadata: { namespace }, spec: { nodeName = "" } }: Pod): void {
    const key = `${nodeName}/${namespace}`;
    if (this.#charged.has(key)) return;
    const neighbours = this.#pods.filter(
      ({ metadata, spec }) =>
        metadata.namespace === namespace && (spec.nodeName ?? "") === nodeName,
    );
    this.#index.charge(neighbours.map(({ metadata }) => metadata.uid));
    this.#charged.add(key);
  }
}
