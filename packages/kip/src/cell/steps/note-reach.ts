import type { CellChange } from "../../state/cell-change.ts";
import { outOfReach } from "../../status/out-of-reach.ts";
import type { CellContext } from "../cell-step.ts";
import { cellOf, type CellTools } from "./step-context.ts";

/** Records whether the agent is unreachable, and reports that as an event. The pod's status is derived from the change. */
export async function noteReach(
  { onProblem }: Pick<CellTools, "onProblem">,
  context: CellContext,
  isOutOfReach: boolean,
): Promise<CellChange> {
  const { name } = cellOf(context).metadata;
  if (isOutOfReach) {
    const { reason, message } = outOfReach(name);
    onProblem(context.state().podRef.uid, reason, message);
  }
  return { kind: "reach", isOutOfReach };
}
