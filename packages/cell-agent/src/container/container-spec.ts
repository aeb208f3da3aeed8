import { AgentError, type DesiredContainer, type DesiredPod } from "@kip/agent-api";
import { textBefore } from "@kip/base";
import type { ImageConfig, ResolvedUser } from "@kip/oci-image";
import type {
  ContainerMount,
  ContainerSpec,
  ContainerUser,
  LogLimits,
  PodSandbox,
} from "@kip/oci-runtime";
import { containerLimits } from "../state/amounts.ts";

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Inputs for a container's specification. */
export interface SpecInput {
  readonly id: string;
  readonly attempt: number;
  readonly pod: DesiredPod;
  readonly container: DesiredContainer;
  readonly image: ImageConfig;
  readonly sandbox: PodSandbox;
  readonly rootfs: string;
  /** Identity of the image's user. */
  readonly imageUser: ResolvedUser;
  /** Identity of `container.user` in the image, if the container names one. */
  readonly wantedUser?: ResolvedUser | undefined;
  readonly mounts: readonly ContainerMount[];
  readonly logDirectory: string;
  readonly logLimits?: LogLimits | undefined;
  readonly oomScoreAdj: number;
}

/**
 * Combines the pod's settings with the image's, by Kubernetes' rules. Pure.
 *
 * @throws {AgentError} code `AGENT_CONTAINER_CONFIG` if they contradict each other; `AGENT_CONTAINER_INVALID` without a
 * command; `AGENT_PROFILE_UNAVAILABLE`
 */
export function containerSpec(input: SpecInput): ContainerSpec {
  const { container, image, pod } = input;
  const user = containerUser(input);
  const isInteractive = container.stdin === true;
  return {
    id: input.id,
    sandbox: input.sandbox,
    labels: { podUid: pod.uid, container: container.name, attempt: String(input.attempt) },
    rootfs: input.rootfs,
    args: commandLine(container, image),
    env: environment(input),
    cwd: container.workingDir ?? image.workingDir,
    user,
    tty: container.tty === true,
    stdin: isInteractive ? (container.stdinOnce === true ? "once" : "open") : "closed",
    mounts: input.mounts,
    logDirectory: input.logDirectory,
    logLimits: input.logLimits,
    oomScoreAdj: input.oomScoreAdj,
    resources: { ...containerLimits(pod, container), hugePages: container.hugePages },
    readOnlyRootfs: container.readOnlyRootFilesystem,
    privileged: container.privileged,
    isProcUnmasked: container.procMount === "Unmasked",
    seccomp: seccomp(input),
    addCapabilities: container.addCapabilities,
    dropCapabilities: container.dropCapabilities,
    allowPrivilegeEscalation: container.allowPrivilegeEscalation,
  };
}

/** @throws {AgentError} code `AGENT_PROFILE_UNAVAILABLE` */
function seccomp({ container, pod }: SpecInput): ContainerSpec["seccomp"] {
  if (container.seccomp !== "Localhost") return container.seccomp;
  const { seccompProfile: name = "" } = container;
  const profile = pod.seccompProfiles?.find((each) => each.name === name);
  if (profile?.json !== undefined) return { profile: profile.json };
  const reason = profile?.error ?? `cannot load seccomp profile "${name}"`;
  throw new AgentError("AGENT_PROFILE_UNAVAILABLE", reason, {
    remedy: "Put the profile into the folder of profiles on kip's machine",
  });
}

/**
 * `command` replaces the image's entrypoint and command, and `args` alone only the command. As in containerd, an entrypoint
 * that is one empty text counts as none. A Dockerfile removes its base's entrypoint in this way.
 */
function commandLine(container: DesiredContainer, image: ImageConfig): readonly string[] {
  const command = container.command ?? [];
  const args = container.args ?? [];
  const isNone = image.entrypoint.length === 1 && image.entrypoint[0] === "";
  const line =
    command.length > 0
      ? [...command, ...args]
      : [...(isNone ? [] : image.entrypoint), ...(args.length > 0 ? args : image.cmd)];
  if (line.length > 0) return line;
  throw new AgentError("AGENT_CONTAINER_INVALID", "no command specified", {
    remedy: "Give the container a command; its image has none",
  });
}

function environment({ container, image, imageUser, wantedUser, sandbox }: SpecInput): string[] {
  const entries = new Map<string, string>();
  const home = (container.user === undefined ? imageUser : wantedUser)?.home ?? "/";
  const defaults = [defaultPath, `HOSTNAME=${sandbox.hostname}`, `HOME=${home}`];
  if (container.tty === true) defaults.push("TERM=xterm");
  for (const entry of [...defaults, ...image.env]) entries.set(textBefore(entry, "="), entry);
  for (const { name, value } of container.env) entries.set(name, `${name}=${value}`);
  return [...entries.values()];
}

function containerUser(input: SpecInput): ContainerUser {
  const { container, pod, image, imageUser, wantedUser } = input;
  const base = container.user === undefined ? imageUser : wantedUser;
  const uid = container.user ?? imageUser.uid;
  checkNonRoot(input, uid, image.user);
  const gid = container.group ?? base?.gid ?? 0;
  // The first group is also among the supplementary groups. Otherwise (CVE-2022-2989) a process that changes its own group
  // would escape file permissions that deny access to the first one.
  const groups = [
    gid,
    ...(container.supplementalGroupsPolicy === "Strict" ? [] : (base?.additionalGids ?? [])),
    ...(container.supplementalGroups ?? []),
    ...(pod.fsGroup === undefined ? [] : [pod.fsGroup]),
  ];
  // In containerd's order, which the status shows. The kernel has its own.
  return { uid, gid, additionalGids: [...new Set(groups)].sort((a, b) => a - b) };
}

function checkNonRoot({ container, pod }: SpecInput, uid: number, imageUser: string): void {
  if (container.runAsNonRoot !== true) return;
  const where = `(pod: "${pod.name}_${pod.namespace}(${pod.uid})", container: ${container.name})`;
  const name = textBefore(imageUser, ":");
  const fail = (reason: string): never => {
    throw new AgentError("AGENT_CONTAINER_CONFIG", `${reason} ${where}`, {
      remedy: "Set runAsUser to a number above 0",
    });
  };
  if (container.user === 0) fail("container's runAsUser breaks non-root policy");
  if (container.user !== undefined) return;
  if (name !== "" && !/^\d+$/.test(name)) {
    fail(
      `container has runAsNonRoot and image has non-numeric user (${name}), cannot verify user is non-root`,
    );
  }
  if (uid === 0) fail("container has runAsNonRoot and image will run as root");
}
