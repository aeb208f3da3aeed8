import { errorText } from "@kip/base";
import { writePodFiles } from "../volumes/pod-files.ts";
import { refreshVolumes } from "../volumes/pod-volumes.ts";
import { present, type Executor } from "./step-tools.ts";

/** Updates the pod's files and volumes for a newer pod. Failures are retried after a back-off. */
export const refresh: Executor<"refresh"> = async (_step, { state }, tools) => {
  const { directories, events } = tools;
  const pod = present(state().desired);
  const before = present(state().resources);
  try {
    let podFiles;
    try {
      refreshVolumes(pod, directories);
    } finally {
      // Write these even if a volume fails.
      podFiles = writePodFiles(directories.podFiles, pod);
    }
    return { kind: "prepared", resources: { ...before, podFiles, generation: pod.generation } };
  } catch (error) {
    events.warning("FailedMount", errorText(error));
    throw error;
  }
};
