import { errorText } from "@kip/base";
import { writePodFiles } from "../volumes/pod-files.ts";
import { refreshVolumes } from "../volumes/pod-volumes.ts";
import { present, type Executor } from "./step-tools.ts";

/** Brings files of the pod and its volumes up to date with a newer pod. What fails is tried again, after a back-off. */
export const refresh: Executor<"refresh"> = async (_step, { state }, tools) => {
  const { directories, events } = tools;
  const pod = present(state().desired);
  const before = present(state().resources);
  try {
    let podFiles;
    try {
      refreshVolumes(pod, directories);
    } finally {
      // A volume that fails keeps none of these from it.
      podFiles = writePodFiles(directories.podFiles, pod);
    }
    return { kind: "prepared", resources: { ...before, podFiles, generation: pod.generation } };
  } catch (error) {
    events.warning("FailedMount", errorText(error));
    throw error;
  }
};
