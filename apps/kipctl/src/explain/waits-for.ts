import type { Event, Pod } from "@kip/k8s-types";
import type { Cell } from "@kip/kip/cell";
import { waitOf } from "../get/cell-columns.ts";
import { exitText } from "./how-ended.ts";

/** The condition in which kip reports why a pod is waiting. */
const cellReady = "kip.elotl.co/CellReady";

/** What an event says. */
type EventText = Pick<Event, "type" | "reason" | "message">;

/**
 * Why a pod is waiting, in one sentence. Undefined if it is not waiting.
 *
 * @param newest the pod's newest event. It may say what its status does not, for example which volume is missing
 */
export function waitsFor(
  pod: Pod,
  cell: Cell | undefined,
  isOnKip: boolean,
  newest?: EventText,
): string | undefined {
  const { phase, conditions = [] } = pod.status ?? {};
  if (phase === "Succeeded" || phase === "Failed") return undefined;
  if (pod.metadata.deletionTimestamp !== undefined) return "its end: it is deleted";
  if (pod.spec.nodeName === undefined) return schedulerText(pod);
  if (!isOnKip)
    return `nothing of kip: node "${pod.spec.nodeName}" is not one of kip's, so it has no machine of its own`;
  const own = conditions.find(({ type, status }) => type === cellReady && status === "False");
  const ofCell = cell && waitOf(cell);
  const known = ofCell ?? own;
  if (known) return `${known.message ?? ""} (${known.reason ?? "no reason"})`;
  return containerText(pod, newest) ?? gateText(pod);
}

function schedulerText({ status }: Pod): string {
  const scheduled = status?.conditions?.find(({ type }) => type === "PodScheduled");
  const { message = "it has not been bound to a node yet" } = scheduled ?? {};
  return `the scheduler: ${message}`;
}

/** Describes the first container that is not running or not ready. */
function containerText(pod: Pod, newest: EventText | undefined): string | undefined {
  const { status } = pod;
  const init = runningInit(pod);
  if (init !== undefined) return `init container "${init}": it runs, and has not completed`;
  const all = [
    ...(status?.initContainerStatuses ?? []),
    ...(status?.containerStatuses ?? []),
    ...(status?.ephemeralContainerStatuses ?? []),
  ];
  const waiting = all.find(({ state }) => state?.waiting !== undefined);
  if (waiting) {
    const { reason, message } = waiting.state?.waiting ?? {};
    const last = waiting.lastState?.terminated;
    const texts =
      message === undefined && newest?.type === "Warning"
        ? [reason, newest.reason, newest.message]
        : [reason, message];
    const why = texts.filter((text) => text !== undefined).join(": ");
    const before = last ? `; it last ended with ${exitText(last)}` : "";
    return `container "${waiting.name}": ${why}${before}`;
  }
  const unready = status?.containerStatuses?.find(
    ({ ready, state }) => !ready && state?.running !== undefined,
  );
  if (!unready) return undefined;
  const probe = unready.started === false ? "startup" : "readiness";
  return `container "${unready.name}": it runs, and its ${probe} probe has not succeeded`;
}

/** The init container that runs. A sidecar runs as long as the pod. */
function runningInit({ spec, status }: Pod): string | undefined {
  const sidecars = spec.initContainers?.filter(({ restartPolicy }) => restartPolicy === "Always");
  return status?.initContainerStatuses?.find(
    ({ name, state }) =>
      state?.running !== undefined && sidecars?.some((each) => each.name === name) !== true,
  )?.name;
}

/** The readiness gates that keep a pod unready when its containers are ready. */
function gateText({ status }: Pod): string | undefined {
  const ready = status?.conditions?.find(
    ({ type, status }) => type === "Ready" && status === "False",
  );
  return ready?.reason === "ReadinessGatesNotReady"
    ? `its readiness gates: ${ready.message}`
    : undefined;
}
