import { AgentError, type DesiredPod } from "@kip/agent-api";
import { errorText } from "@kip/base";
import {
  allocateDevices,
  hasExtendedResources,
  mayComeLater,
} from "../devices/allocate-devices.ts";
import { podLink } from "../network/pod-link.ts";
import type { EndReason } from "../state/pod-state.ts";
import { openToUsers, ownUsersOf } from "../volumes/own-users.ts";
import { writePodFiles } from "../volumes/pod-files.ts";
import { makeVolumes } from "../volumes/pod-volumes.ts";
import { rejectPod } from "./reject-pod.ts";
import { present, type Executor, type StepTools } from "./step-tools.ts";

/**
 * Creates namespaces, network and volumes, and uses those of an earlier attempt. If the cell lacks something that the pod
 * requires, ends the pod, like a kubelet that does not admit it.
 */
export const prepare: Executor<"prepare"> = async (_step, context, tools) => {
  const { dependencies, directories, events, logger } = tools;
  const pod = present(context.state().desired);
  const rejection =
    (await dependencies.reserveHugePages(pod.hugePages ?? [])) ?? (await lackOfDevices(pod, tools));
  if (rejection) return rejectPod(rejection, tools);
  await growDisk(tools);
  try {
    const ownUsers = ownUsersOf(pod);
    if (ownUsers) openToUsers(directories);
    const podFiles = writePodFiles(directories.podFiles, pod);
    const hasRun = [...context.state().containers.values()].some(({ saved }) => saved.run);
    const [sandbox, volumes] = await Promise.all([
      (async () => {
        const made = await dependencies.createSandbox({
          runDir: directories.runtime,
          hostname: pod.hostname,
          podIp: pod.hostNetwork ? undefined : pod.podIp,
          ipv6: pod.ipv6,
          shareProcessNamespace: pod.shareProcessNamespace,
          ownUsers,
          sysctls: pod.sysctls,
          logger,
        });
        const link = podLink(pod, hasRun);
        if (link) await dependencies.setUpLink?.(link);
        return made;
      })(),
      (async () => {
        await dependencies.volumesPrepared;
        const { mounter } = dependencies;
        return await makeVolumes(pod, { directories, mounter, hasRun });
      })(),
    ]);
    const { generation } = pod;
    return { kind: "prepared", resources: { sandbox, volumes, podFiles, generation } };
  } catch (error) {
    const text = errorText(error);
    if (AgentError.is(error, "AGENT_VOLUME_FAILED")) events.warning("FailedMount", text);
    else events.warning("FailedCreatePodSandBox", `Failed to create pod sandbox: ${text}`);
    context.change({ kind: "prepareFailed" });
    throw error;
  }
};

/**
 * Enlarges the root file system, because a pod may have taken an existing cell with a larger disk. Until it is enlarged, the
 * pod also runs on the smaller one.
 */
async function growDisk({ dependencies, events, logger }: StepTools): Promise<void> {
  try {
    await dependencies.growRootFileSystem?.();
  } catch (error) {
    logger.error("Could not grow the root file system", { err: error });
    events.warning(
      "DiskNotGrown",
      `The pod has a smaller disk than it asks for: ${errorText(error)}`,
    );
  }
}

/**
 * The devices that the cell lacks for the pod. Undefined if it has all of them, or if a container that starts earlier may
 * provide them.
 */
async function lackOfDevices(
  pod: DesiredPod,
  { dependencies }: StepTools,
): Promise<EndReason | undefined> {
  if (!hasExtendedResources(pod) || mayComeLater(pod)) return undefined;
  return allocateDevices(pod, await dependencies.cdiDevices()).rejection;
}
