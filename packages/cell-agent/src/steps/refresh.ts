import { errorText } from "@kip/base";
import { writePodFiles } from "../volumes/pod-files.ts";
import { makeVolumes } from "../volumes/pod-volumes.ts";
import { present, type Executor } from "./step-tools.ts";

/** Brings files of the pod and its volumes up to date with a newer pod. What fails is tried with the next pod. */
export const refresh: Executor<"refresh"> = async (_step, { state }, tools) => {
  const { dependencies, directories, events } = tools;
  const pod = present(state().desired);
  const before = present(state().resources);
  const { generation } = pod;
  try {
    const volumes = await makeVolumes(pod, directories, dependencies.mounter);
    const podFiles = writePodFiles(directories.podFiles, pod);
    return { kind: "prepared", resources: { ...before, volumes, podFiles, generation } };
  } catch (error) {
    events.warning("FailedMount", errorText(error));
    return { kind: "prepared", resources: { ...before, generation } };
  }
};
