import { AgentError } from "@kip/agent-api";
import { errorText } from "@kip/base";
import { podLink } from "../network/pod-link.ts";
import { openToUsers, ownUsersOf } from "../volumes/own-users.ts";
import { writePodFiles } from "../volumes/pod-files.ts";
import { makeVolumes } from "../volumes/pod-volumes.ts";
import { present, type Executor } from "./step-tools.ts";

/**
 * Makes namespaces, network and volumes; what an earlier try has made is used. Ends the pod where the cell turns out not to
 * have what it asks for, as a kubelet does that does not admit it.
 */
export const prepare: Executor<"prepare"> = async (_step, context, tools) => {
  const { dependencies, directories, events, clock, logger } = tools;
  const pod = present(context.state().desired);
  const rejection = await dependencies.reserveHugePages(pod.hugePages ?? []);
  if (rejection) {
    const { reason, message } = rejection;
    events.warning(reason, message);
    const words = { reason, message: `Pod was rejected: ${message}` };
    return { kind: "end", graceMs: 0, nowMs: clock.now(), reason: words };
  }
  try {
    const ownUsers = ownUsersOf(pod);
    if (ownUsers) openToUsers(directories);
    const podFiles = writePodFiles(directories.podFiles, pod);
    const [sandbox, volumes] = await Promise.all([
      (async () => {
        const made = await dependencies.createSandbox({
          runDir: directories.runtime,
          hostname: pod.hostname,
          podIp: pod.hostNetwork ? undefined : pod.podIp,
          ipv6: pod.ipv6,
          shareProcessNamespace: pod.shareProcessNamespace,
          ownUsers,
          logger,
        });
        const runs = [...context.state().containers.values()].map(({ saved }) => saved.run);
        const link = podLink(
          pod,
          runs.some((run) => run !== undefined),
        );
        if (link) await dependencies.setUpLink?.(link);
        return made;
      })(),
      (async () => {
        await dependencies.volumesPrepared;
        return await makeVolumes(pod, directories, dependencies.mounter);
      })(),
    ]);
    const { generation } = pod;
    return { kind: "prepared", resources: { sandbox, volumes, podFiles, generation } };
  } catch (error) {
    const text = errorText(error);
    if (AgentError.is(error, "AGENT_VOLUME_FAILED")) events.warning("FailedMount", text);
    else events.warning("FailedCreatePodSandBox", `Failed to create pod sandbox: ${text}`);
    throw error;
  }
};
