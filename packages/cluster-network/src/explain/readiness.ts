import type { ContainerStatus, Pod } from "@kip/k8s-types";
import { addressesOf, hasEnded, podName } from "./cluster-objects.ts";

/** Why a pod is not a ready endpoint. Undefined if it is ready. */
export function whyNotReady(pod: Pod): string | undefined {
  const { metadata, status, spec } = pod;
  if (hasEnded(pod)) return `${podName(pod)} has ended (${status?.phase ?? ""})`;
  if (metadata.deletionTimestamp !== undefined) return `${podName(pod)} is being deleted`;
  if (spec.nodeName === undefined)
    return `${podName(pod)} has no node yet${conditionText(pod, "PodScheduled")}`;
  if (addressesOf(pod).length === 0) return `${podName(pod)} has no address yet${waiting(pod)}`;
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  if (ready?.status === "True") return undefined;
  const gates = (spec.readinessGates ?? []).flatMap(({ conditionType }) => {
    const gate = status?.conditions?.find(({ type }) => type === conditionType);
    return gate?.status === "True" ? [] : [conditionType];
  });
  const text = waiting(pod) || (gates.length > 0 ? ` (readiness gate ${gates.join(", ")})` : "");
  return `${podName(pod)} is not ready${text || conditionText(pod, "Ready")}`;
}

function waiting({ status }: Pod): string {
  const all = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  const texts = all.filter(({ ready }) => !ready).flatMap((each) => stateText(each) ?? []);
  return texts.length === 0 ? "" : ` (${texts.join("; ")})`;
}

function stateText({ name, state }: ContainerStatus): string | undefined {
  if (state?.waiting)
    return `container ${name} waits: ${state.waiting.reason ?? "no reason given"}`;
  if (state?.terminated)
    return `container ${name} has ended with exit code ${state.terminated.exitCode}`;
  return state?.running
    ? `container ${name} runs, and its readiness probe has not succeeded`
    : undefined;
}

function conditionText({ status }: Pod, wanted: string): string {
  const found = status?.conditions?.find(({ type }) => type === wanted);
  const text = found?.message ?? found?.reason;
  return text === undefined ? "" : ` (${text})`;
}
