import type { EndpointSlice, NetworkPolicy } from "@kip/k8s-types/network";
import { AddressGroups } from "./address-groups.ts";
import { podPolicy, type PodPolicy } from "./pod-policy.ts";
import { standInOf, standInUid } from "./stand-in.ts";

/** Policies as they come, and what they mean for each pod. */
export class PolicyIndex {
  readonly groups = new AddressGroups();
  readonly #byNamespace = new Map<string, Map<string, NetworkPolicy>>();

  /** Takes a policy. */
  setPolicy(policy: NetworkPolicy, isGone = false): void {
    const { namespace, uid } = policy.metadata;
    const policies = this.#byNamespace.get(namespace) ?? new Map<string, NetworkPolicy>();
    if (isGone) policies.delete(uid);
    else policies.set(uid, policy);
    if (policies.size > 0) this.#byNamespace.set(namespace, policies);
    else this.#byNamespace.delete(namespace);
  }

  /** Takes a slice: policies select the name server of `kip up` by it, see {@link standInOf}. */
  setSlice(slice: EndpointSlice, isGone = false): void {
    const standIn = standInOf(slice);
    if (standIn) this.groups.setPod(standInUid, isGone ? undefined : standIn);
  }

  /** Whether there is a policy at all. */
  get isEmpty(): boolean {
    return this.#byNamespace.size === 0;
  }

  /** Whether pods of a namespace may have policies. */
  concerns(namespace: string): boolean {
    return this.#byNamespace.has(namespace);
  }

  /** The policy of a pod; undefined if the pod is not known. */
  policyOf(podUid: string): PodPolicy | undefined {
    const pod = this.groups.pod(podUid);
    return pod && podPolicy(pod, this.#byNamespace.get(pod.namespace)?.values() ?? [], this.groups);
  }
}
