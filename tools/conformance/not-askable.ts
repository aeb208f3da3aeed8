/** A spec that asks for something else than a node of machines is, or has a known cause. */
export interface Remark {
  /** Part of the spec's name that no other spec has. */
  readonly spec: string;
  readonly reason: string;
}

/** Specs that one node of machines cannot be asked; they do not run. */
export const notAskable: readonly Remark[] = [
  {
    spec: "Conformance Tests should have at least two untainted nodes",
    reason: "wants two nodes; `kip up` has one",
  },
  {
    spec: "Daemon set [Serial] should rollback without unnecessary restarts",
    reason: "wants two nodes; `kip up` has one",
  },
  {
    spec: "Job should allow to use a pod failure policy to ignore failure matching on DisruptionTarget condition",
    reason:
      "wants a second pod to find a file of the first one on the node; each pod has a machine of its own",
  },
];
