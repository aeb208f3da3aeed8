import { bytes, defined, milliCpu } from "@kip/base";
import type { DesiredContainer, DesiredHook, DesiredProbe } from "@kip/agent-api";
import type { Container, EphemeralContainer, Pod, Probe, VolumeMount } from "@kip/k8s-types";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import {
  bindLateEnv,
  expandSubPath,
  expandVariables,
  ExpansionBudget,
  type LateAddresses,
} from "@kip/virtual-kubelet/environment";

type AnyContainer = Container | EphemeralContainer;
type SeccompProfile = NonNullable<NonNullable<Container["securityContext"]>["seccompProfile"]>;
type Handler = NonNullable<NonNullable<Container["lifecycle"]>["preStop"]>;

/** A container of the pod as the agent runs it: references resolved, defaults applied. */
export function desiredContainer(
  resolved: ResolvedPod,
  container: AnyContainer,
  addresses: LateAddresses,
): DesiredContainer {
  const env = bindLateEnv(resolved, container.name, addresses);
  const variables = new Map(env.map(({ name, value }) => [name, value]));
  const budget = new ExpansionBudget();
  const expand = (texts: readonly string[]): string[] =>
    texts.map((text) => expandVariables(text, variables, budget));
  return defined({
    name: container.name,
    image: container.image ?? "",
    imagePullPolicy: pullPolicy(container),
    env,
    mounts: (container.volumeMounts ?? []).map((mount) =>
      defined({
        name: mount.name,
        mountPath: mount.mountPath,
        subPath:
          mount.subPathExpr === undefined
            ? mount.subPath
            : expandSubPath(mount.subPathExpr, variables),
        readOnly: mount.readOnly,
        recursiveReadOnly: isRecursiveReadOnly(mount) ? true : undefined,
      }),
    ),
    command: container.command && expand(container.command),
    args: container.args && expand(container.args),
    workingDir: container.workingDir,
    stdin: container.stdin,
    stdinOnce: container.stdinOnce,
    tty: container.tty,
    ...limits(container),
    ...security(resolved.pod, container),
    ...probesAndHooks(container),
    terminationMessagePath: container.terminationMessagePath ?? "/dev/termination-log",
    terminationMessagePolicy: messagePolicy(container),
    targetContainer: "targetContainerName" in container ? container.targetContainerName : undefined,
    restartPolicy: "restartPolicy" in container ? container.restartPolicy : undefined,
  });
}

/** Cells can do it, so IfPossible is the same as Enabled. */
export function isRecursiveReadOnly({
  readOnly,
  recursiveReadOnly = "Disabled",
}: VolumeMount): boolean {
  return readOnly === true && recursiveReadOnly !== "Disabled";
}

function messagePolicy(container: AnyContainer): DesiredContainer["terminationMessagePolicy"] {
  return container.terminationMessagePolicy === "FallbackToLogsOnError"
    ? "FallbackToLogsOnError"
    : "File";
}

/** The API server sets the policy; this is its rule for pods that never passed through it. */
function pullPolicy(container: AnyContainer): DesiredContainer["imagePullPolicy"] {
  const policy = container.imagePullPolicy;
  if (policy === "Always" || policy === "IfNotPresent" || policy === "Never") return policy;
  return /(?::latest|^[^@]*(?:^|\/)[^:@/]*)$/.test(container.image ?? "")
    ? "Always"
    : "IfNotPresent";
}

function limits({ resources }: AnyContainer) {
  const { limits = {}, requests = {} } = resources ?? {};
  const { cpu, memory } = limits;
  const requested = requests["cpu"];
  return {
    cpuMilliLimit: cpu === undefined ? undefined : milliCpu(cpu),
    cpuMilliRequest: requested === undefined ? undefined : milliCpu(requested),
    memoryBytesLimit: memory === undefined ? undefined : bytes(memory),
  };
}

function security(pod: Pod, container: AnyContainer) {
  const ofPod = pod.spec.securityContext ?? {};
  const own = container.securityContext ?? {};
  return {
    user: own.runAsUser ?? ofPod.runAsUser,
    group: own.runAsGroup ?? ofPod.runAsGroup,
    runAsNonRoot: own.runAsNonRoot ?? ofPod.runAsNonRoot,
    supplementalGroups: ofPod.supplementalGroups,
    supplementalGroupsPolicy: groupsPolicy(ofPod.supplementalGroupsPolicy),
    privileged: own.privileged,
    readOnlyRootFilesystem: own.readOnlyRootFilesystem,
    allowPrivilegeEscalation: own.allowPrivilegeEscalation,
    seccomp: seccomp(own.seccompProfile ?? ofPod.seccompProfile),
    addCapabilities: own.capabilities?.add,
    dropCapabilities: own.capabilities?.drop,
  };
}

/** Profiles of files do not come this far: the node does not admit them. */
function seccomp(profile: SeccompProfile | undefined): DesiredContainer["seccomp"] {
  return profile?.type === "RuntimeDefault" ? profile.type : undefined;
}

function groupsPolicy(policy: string | undefined): DesiredContainer["supplementalGroupsPolicy"] {
  return policy === "Strict" ? policy : undefined;
}

function probesAndHooks(container: AnyContainer) {
  return {
    livenessProbe: desiredProbe(container, container.livenessProbe),
    readinessProbe: desiredProbe(container, container.readinessProbe),
    startupProbe: desiredProbe(container, container.startupProbe),
    postStart: desiredHook(container, container.lifecycle?.postStart),
    preStop: desiredHook(container, container.lifecycle?.preStop),
  };
}

function desiredProbe(container: AnyContainer, probe: Probe | undefined): DesiredProbe | undefined {
  if (!probe) return undefined;
  const { tcpSocket, grpc } = probe;
  return defined({
    ...action(container, probe),
    tcpSocket:
      tcpSocket && defined({ port: portNumber(container, tcpSocket.port), host: tcpSocket.host }),
    grpc: grpc && defined({ port: grpc.port, service: grpc.service }),
    initialDelaySeconds: probe.initialDelaySeconds,
    timeoutSeconds: probe.timeoutSeconds,
    periodSeconds: probe.periodSeconds,
    successThreshold: probe.successThreshold,
    failureThreshold: probe.failureThreshold,
    terminationGracePeriodSeconds: probe.terminationGracePeriodSeconds,
  });
}

function desiredHook(
  container: AnyContainer,
  handler: Handler | undefined,
): DesiredHook | undefined {
  if (!handler) return undefined;
  return defined({ ...action(container, handler), sleepSeconds: handler.sleep?.seconds });
}

/** What probes and hooks have in common: run a command, or ask an HTTP server. */
function action(container: AnyContainer, { exec, httpGet }: Pick<Handler, "exec" | "httpGet">) {
  return {
    exec: exec && { command: exec.command ?? [] },
    httpGet:
      httpGet &&
      defined({
        path: httpGet.path ?? "/",
        port: portNumber(container, httpGet.port),
        host: httpGet.host,
        scheme: httpGet.scheme,
        headers: httpGet.httpHeaders,
      }),
  };
}

/** A port given by number or by the name of one of the container's ports; 0 if there is no such name. */
function portNumber(container: AnyContainer, port: number | string): number {
  if (typeof port === "number") return port;
  const named = container.ports?.find((candidate) => candidate.name === port);
  return named?.containerPort ?? (Number(port) || 0);
}
