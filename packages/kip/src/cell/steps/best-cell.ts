import { InstanceTypeError } from "@kip/instance-types";
import type { Pod } from "@kip/k8s-types";
import { grantedResources, withGrantedResources } from "../../selection/granted-resources.ts";
import type { ShortScope } from "../../selection/shortages.ts";
import type { CellSpec } from "../../state/cell.ts";
import type { CellContext } from "../cell-step.ts";
import { required, type CellTools } from "./step-context.ts";

/**
 * The spec of the pod's next Cell if the cloud had capacity for everything.
 *
 * @throws like `CellChooser.choose`
 */
export async function bestCell(tools: CellTools, context: CellContext): Promise<CellSpec> {
  const { pod } = required(context.state().pod.resolved, "the pod is not known");
  return await chooseAmong(tools, context, { pod, unavailable: [] });
}

/**
 * The spec of the pod's next Cell if the cloud had capacity for everything but these machines.
 *
 * @throws like `CellChooser.choose`
 */
export async function chooseAmong(
  { chooser }: CellTools,
  { state }: CellContext,
  { pod, unavailable }: { readonly pod: Pod; readonly unavailable: readonly ShortScope[] },
): Promise<CellSpec> {
  const { podRef, history, containers, status } = state();
  const { restartCounts, ended } = containers;
  const { attempt } = history;
  const take = async (wanted: Pod): Promise<CellSpec> =>
    await chooser.choose({ podRef, pod: wanted, attempt, restartCounts, unavailable });
  const spec = await take(pod).catch(async (error: unknown) => {
    // A pod that was resized beyond every machine keeps its previous size.
    const known = status ?? pod.status;
    if (!isTooSmall(error) || grantedResources(known).size === 0) throw error;
    return await take(withGrantedResources(pod, known));
  });
  return Object.keys(ended).length > 0 ? { ...spec, ended } : spec;
}

/** Whether no machine is large enough for the pod. */
export function isTooSmall(error: unknown): boolean {
  return InstanceTypeError.is(error, "NO_INSTANCE_TYPE_FITS");
}
