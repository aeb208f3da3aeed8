import { removeVolumes } from "../volumes/pod-volumes.ts";
import { present, type Executor } from "./step-tools.ts";

/** Releases everything, including what an earlier process of the agent created. */
export const release: Executor<"release"> = async (_step, { state }, tools) => {
  const { dependencies, directories, logger } = tools;
  const pod = present(state().desired);
  try {
    await removeVolumes(pod, directories, dependencies.mounter);
    await dependencies.removeSandbox({ runDir: directories.runtime, logger });
  } catch (error) {
    // The machine ends with the pod, so leftovers must not prevent the pod from ending.
    logger.error("Could not free all resources of the pod", { podUid: pod.uid, err: error });
  }
  logger.info("Released the pod", { podUid: pod.uid });
  return { kind: "released" };
};
