import { parseQuantity } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import { podRequests } from "../selection/pod-requests.ts";
import type { AdmissionContext, Rejection } from "./rejection.ts";

/**
 * Refuses a pod beyond the number of those that the node offers: one that names its node comes past the scheduler, which counts them
 * otherwise. Each would have a machine, and kip keeps what it has looked up for each.
 */
export function rejectTooMany(
  _pod: Pod,
  { allocatable, otherPods, mostOtherPods = Infinity }: AdmissionContext,
): Rejection | undefined {
  const { pods } = allocatable;
  if (pods === undefined) return undefined;
  const capacity = parseQuantity(pods);
  if (mostOtherPods < capacity) return undefined;
  const used = otherPods().length;
  if (used < capacity) return undefined;
  return {
    reason: "OutOfpods",
    message: `Node didn't have enough resource: pods, requested: 1, used: ${used}, capacity: ${capacity}`,
  };
}

/**
 * Refuses a pod that requests more than the whole node offers. What other pods use does not count, as each pod has a
 * machine of its own. Extended resources that the node does not have are left out, as with a kubelet.
 *
 * A pod that the node could take but no instance type (its limits are too large, or an operator configured a larger node)
 * is not refused: it waits with the reason `NoInstanceTypeFits`, as the types on offer may change.
 */
export function rejectTooLarge(
  pod: Pod,
  { allocatable }: Pick<AdmissionContext, "allocatable">,
): Rejection | undefined {
  for (const [name, amount] of podRequests(pod)) {
    const offered = allocatable[name];
    // Only a node with huge pages names them.
    if (offered === undefined && !name.startsWith("hugepages-")) continue;
    const capacity = parseQuantity(offered ?? "0");
    if (amount <= capacity) continue;
    const scale = name === "cpu" ? 1000 : 1;
    const [requested, limit] = [amount, capacity].map((each) => Math.ceil(each * scale - 1e-6));
    return {
      reason: `OutOf${name}`,
      message: `Node didn't have enough resource: ${name}, requested: ${requested}, used: 0, capacity: ${limit}`,
    };
  }
  return undefined;
}
