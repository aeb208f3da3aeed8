import { parseQuantity } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import { podRequests } from "../selection/pod-requests.ts";
import type { AdmissionContext, Rejection } from "./rejection.ts";

/**
 * Refuses a pod if the node already has the number of pods that it offers. Pods that name their node bypass the scheduler,
 * which otherwise counts them. Each would get a machine, and kip keeps data about each.
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
 * Refuses a pod that requests more than the whole node offers. Other pods' usage does not count, because each pod has its own
 * machine. As in a kubelet, extended resources that the node lacks are ignored.
 *
 * A pod that fits the node but no instance type is not refused, for example because its limits are too large or an operator
 * configured a larger node. It waits with the reason `NoInstanceTypeFits`, as the types on offer may change.
 */
export function rejectTooLarge(
  pod: Pod,
  { allocatable }: Pick<AdmissionContext, "allocatable">,
): Rejection | undefined {
  for (const [name, amount] of podRequests(pod)) {
    const offered = allocatable[name];
    // A node only lists huge pages if it has them.
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
