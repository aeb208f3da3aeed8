import type { PodReport } from "@kip/agent-api";
import type { Pod, PodCondition } from "@kip/k8s-types";

/** Condition that tells what a pod waits for before its containers can start. */
export const cellReadyCondition = "kip.elotl.co/CellReady";

type Verdict = Pick<PodCondition, "type" | "status"> & {
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
};

/** What {@link podConditions} looks at. */
export interface ConditionFacts {
  readonly pod: Pod;
  readonly report: PodReport | undefined;
  readonly phase: string;
  readonly waitingFor: { readonly reason: string; readonly message: string } | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * The conditions of a pod, worded as the kubelet words them; transition times of the API's conditions
 * are kept where nothing changed, and conditions that others set (readiness gates) stay.
 */
export function podConditions(facts: ConditionFacts): PodCondition[] {
  const verdicts = [cellReady(facts), readyToStart(facts), initialized(facts), ...readiness(facts)];
  const known = facts.pod.status?.conditions ?? [];
  const now = new Date(facts.now).toISOString().replace(/\.\d+Z$/, "Z");
  const own = verdicts.map(({ type, status, reason, message }): PodCondition => {
    const before = known.find((condition) => condition.type === type);
    const since = before?.status === status ? before.lastTransitionTime : undefined;
    return {
      type,
      status,
      lastTransitionTime: since ?? now,
      ...(reason !== undefined && { reason }),
      ...(message !== undefined && { message }),
    };
  });
  const others = known.filter((condition) => !own.some((each) => each.type === condition.type));
  if (!others.some((condition) => condition.type === "PodScheduled")) {
    others.push({ type: "PodScheduled", status: "True", lastTransitionTime: now });
  }
  return [...own, ...others];
}

function cellReady({ report, waitingFor }: ConditionFacts): Verdict {
  if (report) return { type: cellReadyCondition, status: "True" };
  return {
    type: cellReadyCondition,
    status: "False",
    reason: waitingFor?.reason ?? "CellStarting",
    message: waitingFor?.message ?? "The machine of this pod is being started",
  };
}

function readyToStart({ report }: ConditionFacts): Verdict {
  return { type: "PodReadyToStartContainers", status: report ? "True" : "False" };
}

function initialized({ pod, report, phase }: ConditionFacts): Verdict {
  const waiting = (pod.spec?.initContainers ?? [])
    .filter(({ name, restartPolicy }) => {
      const own = report?.initContainers.find((container) => container.name === name);
      return restartPolicy === "Always" ? own?.started !== true : own?.terminated?.exitCode !== 0;
    })
    .map(({ name }) => name);
  if (phase === "Succeeded") return { type: "Initialized", status: "True", reason: "PodCompleted" };
  if (waiting.length === 0) return { type: "Initialized", status: "True" };
  return {
    type: "Initialized",
    status: "False",
    reason: "ContainersNotInitialized",
    message: `containers with incomplete status: [${waiting.join(" ")}]`,
  };
}

function readiness(facts: ConditionFacts): readonly Verdict[] {
  const containers = containersReady(facts);
  if (containers.status === "False") return [containers, { ...containers, type: "Ready" }];
  const conditions = facts.pod.status?.conditions ?? [];
  const missing = (facts.pod.spec?.readinessGates ?? [])
    .map((gate) => gate.conditionType)
    .filter((type) => !conditions.some((each) => each.type === type && each.status === "True"));
  if (missing.length === 0) return [containers, { type: "Ready", status: "True" }];
  const message = missing.map(
    (type) => `corresponding condition of pod readiness gate "${type}" does not exist.`,
  );
  return [
    containers,
    {
      type: "Ready",
      status: "False",
      reason: "ReadinessGatesNotReady",
      message: message.join(", "),
    },
  ];
}

function containersReady({ pod, report, phase }: ConditionFacts): Verdict {
  const type = "ContainersReady";
  if (phase === "Succeeded") return { type, status: "False", reason: "PodCompleted" };
  if (phase === "Failed") return { type, status: "False", reason: "PodFailed" };
  const unready = (pod.spec?.containers ?? [])
    .map(({ name }) => name)
    .filter((name) => report?.containers.find((each) => each.name === name)?.ready !== true);
  if (unready.length === 0) return { type, status: "True" };
  return {
    type,
    status: "False",
    reason: "ContainersNotReady",
    message: `containers with unready status: [${unready.join(" ")}]`,
  };
}
