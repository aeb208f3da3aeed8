import type { EndpointSlice, NetworkPolicy } from "@kip/k8s-types/network";
import { AddressGroups } from "./address-groups.ts";
import { podPolicy, type PodPolicy } from "./pod-policy.ts";
import { standInOf, standInUid } from "./stand-in.ts";
import type { TierPolicy } from "./tier-policy.ts";

/** Policies as they come, and what they mean for each pod. */
export class PolicyIndex {
  readonly groups = new AddressGroups();
  readonly #byNamespace = new Map<string, Map<string, NetworkPolicy>>();
  /** Policies of administrators by kind and name. */
  readonly #tiers = new Map<string, TierPolicy>();
  /** Of both, UIDs by namespace and titles: those with egress rules that name ports, which are numbers of each peer. */
  readonly #naming = new Map<string, Set<string>>();
  readonly #namingTiers = new Set<string>();

  /** Takes a policy. */
  setPolicy(policy: NetworkPolicy, isGone = false): void {
    const { namespace, uid } = policy.metadata;
    const policies = this.#byNamespace.get(namespace) ?? new Map<string, NetworkPolicy>();
    if (isGone) policies.delete(uid);
    else policies.set(uid, policy);
    if (policies.size > 0) this.#byNamespace.set(namespace, policies);
    else this.#byNamespace.delete(namespace);
    const naming = this.#naming.get(namespace) ?? new Set<string>();
    if (!isGone && namesPorts(policy)) naming.add(uid);
    else naming.delete(uid);
    if (naming.size > 0) this.#naming.set(namespace, naming);
    else this.#naming.delete(namespace);
  }

  /**
   * Takes a slice: policies select the name server of `kip up` by it, see {@link standInOf}.
   *
   * @returns whether it is that one
   */
  setSlice(slice: EndpointSlice, isGone = false): boolean {
    const standIn = standInOf(slice);
    if (standIn) this.groups.setPod(standInUid, isGone ? undefined : standIn);
    return standIn !== undefined;
  }

  /** Takes a policy of an administrator; undefined if it is gone. */
  setTierPolicy(title: string, policy: TierPolicy | undefined): void {
    if (policy) this.#tiers.set(title, policy);
    else this.#tiers.delete(title);
    if (policy?.egress.some(({ match }) => match?.ports.some((port) => "name" in port)))
      this.#namingTiers.add(title);
    else this.#namingTiers.delete(title);
  }

  /** Whether rules of a namespace's pods depend on the ports of their peers. */
  dependsOnPorts(namespace: string): boolean {
    return this.#namingTiers.size > 0 || this.#naming.has(namespace);
  }

  /** Whether there is a policy of an administrator. */
  get hasTiers(): boolean {
    return this.#tiers.size > 0;
  }

  /** Whether pods of a namespace may have policies. */
  concerns(namespace: string): boolean {
    return this.hasTiers || this.#byNamespace.has(namespace);
  }

  /**
   * The policy of a pod; undefined if the pod is not known, or policies of administrators may choose it by labels of its
   * namespace, which are not known.
   */
  policyOf(podUid: string): PodPolicy | undefined {
    const { groups } = this;
    const pod = groups.pod(podUid);
    if (!pod || (this.hasTiers && !groups.knowsNamespace(pod.namespace))) return undefined;
    const tiers = [...this.#tiers.values()].filter(({ subject }) => groups.selects(subject, pod));
    const policies = this.#byNamespace.get(pod.namespace)?.values() ?? [];
    return podPolicy(pod, { policies, tiers }, groups);
  }
}

function namesPorts({ spec }: NetworkPolicy): boolean {
  const ports = (spec?.egress ?? []).flatMap((rule) => rule.ports ?? []);
  return ports.some(({ port }) => typeof port === "string");
}
