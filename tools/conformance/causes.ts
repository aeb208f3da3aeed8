import type { Remark } from "./not-askable.ts";

/** Known reasons why specs fail. The page shows them instead of the spec's own message. */
export const causes: readonly Remark[] = [
  {
    spec: "HostPort validates that there is no conflict between pods with same hostPort",
    reason:
      "wants a `hostNetwork` pod to reach another pod's `hostPort` at 127.0.0.1 and at the node's address; each pod has a machine of its own",
  },
  {
    spec: "with a new image [Serial] should be able to pull from private registry with secret",
    reason:
      "wants the node to pull a pod's image from another pod of the node, at `localhost:5000`; each pod has a machine of its own",
  },
];
