import { cloudLimits, CloudError } from "@kip/cloud";
import type { CellChange } from "../../state/cell-change.ts";
import {
  clusterTag,
  isStandby,
  podUidTag,
  standbyTag,
  type Cell,
  type StandbyCell,
} from "../../state/cell.ts";
import type { CellContext } from "../cell-step.ts";
import { cellOf, required, type CellTools } from "./step-context.ts";

type Tags = Readonly<Record<string, string>>;

/** Maximum number of labels that become tags: the clouds' limit, less kip's own tags and some reserve. */
const maxLabelTags = cloudLimits.tags - 8;

/** Labels that are not the user's: those that the original leaves out, and the keys of kip's own tags. */
const ownLabels = /^(kip-|kiyot\.|kubernetes\.io|io\.kubernetes|aws:)/i;

/**
 * The pod's labels as tags of its machine, for bills by team or application. Labels that some cloud does not accept as a tag
 * are left out.
 */
export function labelTags(labels: Tags = {}): Tags {
  const isTag = ([key]: readonly [string, string]): boolean =>
    key.length <= cloudLimits.tagKeyLength && !ownLabels.test(key);
  return Object.fromEntries(Object.entries(labels).filter(isTag).slice(0, maxLabelTags));
}

/** The tags of a cell's instance: the pod's labels, its namespace, name and UID, and the installation that owns it. */
export function instanceTags(
  { clusterID, settings }: Pick<CellTools, "clusterID" | "settings">,
  context: Pick<CellContext, "state">,
): Tags {
  const cell = cellOf(context);
  return {
    ...labelTags(context.state().pod.resolved?.pod.metadata.labels),
    ...podTags(cell),
    [clusterTag]: clusterID,
    "kip-nametag": settings().nametag ?? cell.spec.controllerID,
  };
}

/** Tags an instance with the labels of the pod that has its cell. Skips an instance that is gone. */
export async function tagInstance(tools: CellTools, context: CellContext): Promise<CellChange> {
  const { id } = required(context.state().machine.instance, "there is no instance");
  const tags = instanceTags(tools, context);
  try {
    await tools.driver.setTags(id, tags);
  } catch (error) {
    if (!CloudError.is(error, "CLOUD_NOT_FOUND")) throw error;
  }
  return { kind: "tagged", tags };
}

/** Tags for the pod. A standby cell has none. */
function podTags(cell: Cell | StandbyCell): Tags {
  if (isStandby(cell)) return { [standbyTag]: "true" };
  const { namespace, name, uid } = cell.spec.podRef;
  return { "kip-pod-namespace": namespace, "kip-pod-name": name, [podUidTag]: uid };
}
