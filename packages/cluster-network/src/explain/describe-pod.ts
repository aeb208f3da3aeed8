import type { Pod } from "@kip/k8s-types";
import { addressesOf, podName, type KnownCluster } from "./cluster-objects.ts";
import type { Finding } from "./finding.ts";
import type { KnownPolicy } from "./pod-policies.ts";
import { whyNotReady } from "./readiness.ts";
import { servicesOf } from "./services-of-pod.ts";
import { placeOfPod } from "./target.ts";

/** Reasons of events which report that a pod's cell has no rules yet. */
const troubleReasons: readonly string[] = [
  "NetworkUnavailable",
  "NetworkUnsupported",
  "NetworkNotReady",
];

/** Describes where a pod runs, which policies restrict it, and which Services route to it. */
export function describePod(cluster: KnownCluster, pod: Pod): Finding {
  const addresses = addressesOf(pod);
  const notReady = whyNotReady(pod);
  return {
    outcome: "described",
    sentences: [
      placeOfPod(cluster, pod),
      ...(addresses.length > 0 ? [`Its addresses: ${addresses.join(", ")}`] : []),
      ...(notReady === undefined ? [] : [notReady]),
      ...troubles(cluster, pod),
      ...restrictions(cluster, pod),
      ...servicesOf(cluster, pod),
    ],
  };
}

/** Events which report that a pod's cell has no rules yet. The API server deletes events after an hour. */
export function troubles({ objects }: KnownCluster, pod: Pod): readonly string[] {
  const own = objects.events.filter(
    ({ involvedObject, reason = "" }) =>
      involvedObject.uid === pod.metadata.uid && troubleReasons.includes(reason),
  );
  const isRunning = pod.status?.phase === "Running";
  // A running pod no longer waits for rules.
  const lasting = own.filter(({ reason }) => !isRunning || reason !== "NetworkNotReady");
  return lasting.map(
    ({ reason = "", message = "" }) => `Event ${reason} of ${podName(pod)}: ${message}`,
  );
}

function restrictions(cluster: KnownCluster, pod: Pod): readonly string[] {
  if (pod.spec.hostNetwork === true)
    return ["It has its node's network (hostNetwork): policies do not apply to it"];
  const policy = cluster.policies.of(pod);
  if (policy === "unreadable") return ["Its policies cannot be read, so nothing passes"];
  return (["ingress", "egress"] as const).flatMap((direction) => {
    const { restricting = [], admin = [], baseline = [] } = policy?.[direction] ?? {};
    const names = [...new Set([...admin, ...restricting, ...baseline])];
    const what = direction === "ingress" ? "may reach it" : "it may reach";
    return names.length === 0
      ? `No policy restricts what ${what} (${direction})`
      : [
          `What ${what} is restricted by ${names.join(", ")} (${direction})`,
          ...withoutRules(policy, direction),
        ];
  });
}

/** The policies of a direction that have no rules because they are too large. */
function withoutRules(
  policy: KnownPolicy | undefined,
  direction: "ingress" | "egress",
): readonly string[] {
  if (!policy) return [];
  const { restricting, refused, isOverLimits } = policy[direction];
  if (policy.tooLong.includes(direction))
    return [`They have more rules than a cell takes, so nothing passes (${direction})`];
  if (isOverLimits)
    return [
      `${verbOf(restricting, "has", "have")} no rules, as NetworkPolicies of a pod are too large together, so nothing passes (${direction})`,
    ];
  if (refused.length === 0) return [];
  return [
    `${verbOf(refused, "has", "have")} no rules, as policies of the namespace choose too many addresses (${direction})`,
  ];
}

function verbOf(names: readonly string[], one: string, many: string): string {
  const all = names.map((name) => `NetworkPolicy ${name}`).join(", ");
  return `${all} ${names.length === 1 ? one : many}`;
}
