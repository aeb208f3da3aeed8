/** A spec with a remark: why it cannot run here, or why it is known to fail. */
export interface Remark {
  /** A part of the spec's name that no other spec has. */
  readonly spec: string;
  readonly reason: string;
}

/** Specs that cannot run on a single node of machines. They are skipped. */
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
