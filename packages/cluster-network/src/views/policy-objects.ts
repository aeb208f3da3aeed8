import type { Node, Pod } from "@kip/k8s-types";
import type { EndpointSlice, Namespace, NetworkPolicy } from "@kip/k8s-types/network";
import { podFacts } from "../policies/pod-facts.ts";
import type { PolicyIndex } from "../policies/policy-index.ts";
import { standInUid } from "../policies/stand-in.ts";
import type { TierPolicy } from "../policies/tier-policy.ts";
import type { AffectedPods } from "./affected-pods.ts";
import type { ChangeIntake } from "./change-intake.ts";

/** Options of {@link PolicyObjects}. */
export interface PolicyObjectsOptions {
  readonly policies: PolicyIndex;
  readonly affected: AffectedPods;
  readonly intake: ChangeIntake;
  /** Called when something has changed. */
  readonly onChange: () => void;
}

/** Receives the API objects that policies depend on. Their changes go through a {@link ChangeIntake}, in order. */
export class PolicyObjects {
  readonly #policies: PolicyIndex;
  readonly #affected: AffectedPods;
  readonly #intake: ChangeIntake;
  readonly #onChange: () => void;

  constructor({ policies, affected, intake, onChange }: PolicyObjectsOptions) {
    this.#policies = policies;
    this.#affected = affected;
    this.#intake = intake;
    this.#onChange = onChange;
  }

  /** Sets or deletes an EndpointSlice. Only the one that is treated as a pod has an effect. */
  setSlice(slice: EndpointSlice, isGone: boolean): void {
    const { namespace, name } = slice.metadata;
    if (`${namespace}/${name}` !== standInUid) return;
    this.#take("slice", () => {
      this.#policies.setSlice(slice, isGone);
      this.#onChange();
    });
  }

  setNamespace(namespace: Namespace, isGone: boolean): void {
    this.#take(`namespace ${namespace.metadata.name}`, () => this.#setNamespace(namespace, isGone));
  }

  #setNamespace({ metadata }: Namespace, isGone: boolean): void {
    const { groups } = this.#policies;
    const labels = isGone ? undefined : (metadata.labels ?? {});
    const before = groups.namespaceLabels(metadata.name);
    if (JSON.stringify(before) === JSON.stringify(labels)) return;
    groups.setNamespace(metadata.name, labels);
    // Administrators' policies select pods by the labels of their namespaces.
    if (this.#policies.hasTiers) this.#affected.noteNamespace(metadata.name);
    this.#onChange();
  }

  setPod(pod: Pod, isGone: boolean): void {
    this.#take(`pod ${pod.metadata.uid}`, () => this.#setPod(pod, isGone));
  }

  #setPod(pod: Pod, isGone: boolean): void {
    const { groups, nodes } = this.#policies;
    const { uid } = pod.metadata;
    if (nodes.setPod(uid, isGone ? undefined : pod)) this.#onChange();
    const facts = isGone ? undefined : podFacts(pod);
    const before = groups.pod(uid);
    if (JSON.stringify(before) === JSON.stringify(facts)) return;
    groups.setPod(uid, facts);
    this.#affected.notePod(uid);
    this.#onChange();
  }

  /** Forgets all pods and namespaces. */
  forgetPods(): void {
    this.#take("no pods", () => this.#forgetPods());
  }

  #forgetPods(): void {
    const { groups, nodes } = this.#policies;
    // Remove pods first, because setNamespace() records a change for each known pod of the namespace.
    for (const uid of groups.podUids()) if (uid !== standInUid) groups.setPod(uid, undefined);
    for (const name of groups.namespaces()) groups.setNamespace(name, undefined);
    nodes.forgetPods();
    this.#onChange();
  }

  setPolicy(policy: NetworkPolicy, isGone: boolean): void {
    const { namespace, uid } = policy.metadata;
    this.#take(`policy ${namespace}/${uid}`, () => {
      this.#affected.notePolicy(this.#policies.setPolicy(policy, isGone), namespace);
      this.#onChange();
    });
  }

  setNode(node: Node, isGone: boolean): void {
    const name = node.metadata?.name ?? "";
    this.#take(`node ${name}`, () => {
      this.#policies.nodes.setNode(name, isGone ? undefined : node);
      this.#onChange();
    });
  }

  /** Forgets all nodes. */
  forgetNodes(): void {
    this.#take("no nodes", () => {
      this.#policies.nodes.forgetNodes();
      this.#onChange();
    });
  }

  /** Sets an administrator's policy. Undefined if it was deleted. */
  setTierPolicy(title: string, policy: TierPolicy | undefined): void {
    this.#take(`tier ${title}`, () => {
      this.#affected.notePolicy(this.#policies.setTierPolicy(title, policy));
      this.#onChange();
    });
  }

  #take(what: string, change: () => void): void {
    this.#intake.take(what, change);
  }
}
