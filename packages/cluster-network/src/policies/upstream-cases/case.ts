import type { NetworkPolicy } from "@kip/k8s-types/network";

export type Labels = Readonly<Record<string, string>>;

/** Pairs as `x > y/a`: a pod, all of a namespace, or `*`. All others are open. */
export interface Expected {
  readonly closed?: readonly string[];
  /** These are open although they are of `closed`, too. */
  readonly open?: readonly string[];
}

/** What is written, and which pods reach which ones then. */
export interface Step {
  /** By namespace and name; null to delete it. */
  readonly policies?: Readonly<Record<string, NetworkPolicy["spec"] | null>>;
  /** By kind and name; null to delete it. */
  readonly tiers?: Readonly<Record<string, unknown>>;
  /** Further labels of namespaces and pods. */
  readonly labels?: Readonly<Record<string, Labels>>;
  /** By protocol and port, as `TCP 80`. */
  readonly expect: Readonly<Record<string, Expected>>;
}

export interface Case {
  readonly name: string;
  readonly steps: readonly Step[];
}
