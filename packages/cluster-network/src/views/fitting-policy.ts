import { defined } from "@kip/base";
import { encodeLine, type PolicyView } from "@kip/network-view";
import { isReadable } from "./is-readable.ts";

/** A policy that no cell takes lets nothing pass in the directions that it restricts: its line would end the connection. */
export function fittingPolicy(policy: PolicyView): PolicyView {
  if (isReadable(encodeLine({ kind: "policy", policy }))) return policy;
  return defined({ ingress: policy.ingress && [], egress: policy.egress && [] });
}
