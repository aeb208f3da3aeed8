import type { WantedMachine } from "../../selection/standby-spec.ts";
import type { CellContext } from "../cell-step.ts";
import { bestCell } from "./best-cell.ts";
import { required, type CellTools } from "./step-context.ts";

/** The machine of a standby cell that the pod could take. @throws like `CellChooser.choose` */
export async function wantedStandby(
  tools: CellTools,
  context: CellContext,
): Promise<WantedMachine> {
  const spec = await bestCell(tools, context);
  const { pod } = required(context.state().pod.resolved, "the pod is not known");
  return { spec, zones: tools.chooser.zonesOf(pod), labels: pod.metadata.labels };
}

/**
 * For a pod that waits for a machine of its own: resolves with true when it can take a standby cell instead, and with false if
 * there is none for it or the signal aborts. Never throws.
 */
export async function untilStandby(
  tools: CellTools,
  context: CellContext,
  signal: AbortSignal,
): Promise<boolean> {
  const { standby, clock } = tools;
  const { resolved } = context.state().pod;
  if (standby?.isUsed !== true || !resolved) return false;
  const { creationTimestamp = "" } = resolved.pod.metadata;
  try {
    const wanted = await wantedStandby(tools, context);
    await standby.untilReady(wanted, Date.parse(creationTimestamp) || clock.now(), signal);
    return true;
  } catch {
    return false; // no machine fits the pod, or the wait is over
  }
}
