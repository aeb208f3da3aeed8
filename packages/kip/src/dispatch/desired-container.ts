import { defined } from "@kip/base";
import {
  limitSeconds,
  type DesiredContainer,
  type DesiredHook,
  type DesiredProbe,
  type DesiredVariable,
} from "@kip/agent-api";
import type { Container, EphemeralContainer, Pod, Probe, VolumeMount } from "@kip/k8s-types";
import { VirtualKubeletError, type ResolvedPod } from "@kip/virtual-kubelet";
import { ephemeralStorage } from "./ephemeral-storage.ts";
import { containerExtendedResources } from "./extended-resources.ts";
import { containerHugePages } from "./huge-pages.ts";
import {
  bindLateEnv,
  expandExcept,
  expandSubPath,
  expandVariables,
  ExpansionBudget,
  refersTo,
  type BoundVariable,
  type LateAddresses,
} from "@kip/virtual-kubelet/environment";
import { localhostProfile } from "./seccomp-profiles.ts";
import { resourceAmounts } from "./resource-amounts.ts";

type AnyContainer = Container | EphemeralContainer;
type Propagation = DesiredContainer["mounts"][number]["propagation"];
type Handler = NonNullable<NonNullable<Container["lifecycle"]>["preStop"]>;

/**
 * A container of the pod for the agent, with resolved references and defaults.
 *
 * @param budget limit for everything that is expanded; all containers of the pod share it, because they are in one document
 */
export function desiredContainer(
  resolved: ResolvedPod,
  container: AnyContainer,
  addresses: LateAddresses,
  budget = new ExpansionBudget(),
): DesiredContainer {
  const env = bindLateEnv(resolved, container.name, addresses, budget);
  const open = new Set(env.filter(isOpen).map(({ name }) => name));
  const variables = new Map(
    env.flatMap(({ name, value }) => (open.has(name) ? [] : [[name, value] as const])),
  );
  const missing = resolved.missingEnv?.get(container.name);
  const { mounts, problem } = mountsOf(container, {
    variables: missing === undefined ? variables : undefined,
    open,
    budget,
  });
  const expand = expander(variables, { open, budget });
  return defined({
    name: container.name,
    image: container.image ?? "",
    imagePullPolicy: pullPolicy(container),
    configProblem: missing ?? problem,
    env: env.map(desiredVariable),
    mounts,
    command: container.command && expand(container.command),
    args: container.args && expand(container.args),
    hasLateArguments: open.size > 0 ? true : undefined,
    workingDir: container.workingDir,
    stdin: container.stdin,
    stdinOnce: container.stdinOnce,
    tty: container.tty,
    ...resourceAmounts(container.resources),
    hugePages: containerHugePages(resolved.pod, container),
    extendedResources: containerExtendedResources(container),
    ephemeralStorage: ephemeralStorage(container.resources),
    resizeRestarts: "resizePolicy" in container ? resizeRestarts(container) : undefined,
    ...security(resolved.pod, container),
    ...probesAndHooks(container, budget),
    terminationMessagePath: container.terminationMessagePath ?? "/dev/termination-log",
    terminationMessagePolicy: messagePolicy(container),
    targetContainer: "targetContainerName" in container ? container.targetContainerName : undefined,
    restartPolicy: container.restartPolicy,
    restartPolicyRules: container.restartPolicyRules,
    stopSignal: container.lifecycle?.stopSignal,
  });
}

/**
 * A container's mounts, and why they are not possible yet: a variable of a `subPathExpr` has no value. That must not keep a
 * running pod's other changes from its cell.
 *
 * @param context.variables undefined if they are not known
 * @param context.open names of the variables that only the cell knows
 */
function mountsOf(
  { volumeMounts = [] }: AnyContainer,
  context: {
    readonly variables: ReadonlyMap<string, string> | undefined;
    readonly open: ReadonlySet<string>;
    readonly budget: ExpansionBudget;
  },
): { readonly mounts: DesiredContainer["mounts"]; readonly problem?: string } {
  const { variables, open, budget } = context;
  const isLate = (name: string): boolean => open.has(name);
  let problem: string | undefined;
  const mounts = volumeMounts.map((mount) => {
    const { subPathExpr } = mount;
    const isTemplate = subPathExpr !== undefined && refersTo(subPathExpr, isLate);
    let { subPath } = mount;
    try {
      if (subPathExpr !== undefined && variables && problem === undefined)
        subPath = expandSubPath(subPathExpr, variables, budget, isLate);
    } catch (error) {
      if (!VirtualKubeletError.is(error, "VK_UNRESOLVED") || !error.isAbsent) throw error;
      problem ??= error.message;
    }
    return defined({
      name: mount.name,
      mountPath: mount.mountPath,
      ...(isTemplate ? { subPathTemplate: subPath } : { subPath }),
      readOnly: mount.readOnly,
      recursiveReadOnly: isRecursiveReadOnly(mount) ? true : undefined,
      propagation: propagation(mount),
    });
  });
  return { mounts, ...(problem !== undefined && { problem }) };
}

/** Whether the value is only known on the cell. */
function isOpen({ file, template }: BoundVariable): boolean {
  return file !== undefined || template !== undefined;
}

function desiredVariable({ name, value, file, template }: BoundVariable): DesiredVariable {
  // Almost all variables. A pod may have a hundred thousand.
  if (!file && template === undefined) return { name, value };
  const fromFile = file && {
    volume: file.volumeName,
    path: file.path,
    key: file.key,
    isOptional: file.optional === true,
  };
  return defined({ name, value, file: fromFile, template });
}

/** Expands texts. If some variables are only known on the cell, the results are expanded once more there. */
function expander(
  variables: ReadonlyMap<string, string>,
  { open, budget }: { readonly open: ReadonlySet<string>; readonly budget: ExpansionBudget },
): (texts: readonly string[]) => string[] {
  if (open.size === 0)
    return (texts) => texts.map((text) => expandVariables(text, variables, budget));
  const isLate = (name: string): boolean => open.has(name);
  const lookUp = (name: string): string | undefined => variables.get(name);
  return (texts) => texts.map((text) => expandExcept(text, lookUp, { isLate, budget }));
}

/** Cells support it, so IfPossible is the same as Enabled. */
export function isRecursiveReadOnly({
  readOnly,
  recursiveReadOnly = "Disabled",
}: VolumeMount): boolean {
  return readOnly === true && recursiveReadOnly !== "Disabled";
}

function propagation({ mountPropagation: kind }: VolumeMount): Propagation {
  return kind === "HostToContainer" || kind === "Bidirectional" ? kind : undefined;
}

function messagePolicy(container: AnyContainer): DesiredContainer["terminationMessagePolicy"] {
  return container.terminationMessagePolicy === "FallbackToLogsOnError"
    ? "FallbackToLogsOnError"
    : "File";
}

/** The API server sets the policy. This is its rule, for pods that did not pass through it. */
export function pullPolicy(
  container: Pick<AnyContainer, "image"> & { readonly imagePullPolicy?: string | undefined },
): DesiredContainer["imagePullPolicy"] {
  const policy = container.imagePullPolicy;
  if (policy === "Always" || policy === "IfNotPresent" || policy === "Never") return policy;
  return /(?::latest|^[^@]*(?:^|\/)[^:@/]*)$/.test(container.image ?? "")
    ? "Always"
    : "IfNotPresent";
}

function resizeRestarts({ resizePolicy = [] }: Container): DesiredContainer["resizeRestarts"] {
  const restarts = (["cpu", "memory"] as const).filter((name) =>
    resizePolicy.some(
      (policy) => policy.resourceName === name && policy.restartPolicy === "RestartContainer",
    ),
  );
  return restarts.length > 0 ? restarts : undefined;
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
    ...seccomp(pod, container),
    procMount: procMount(own.procMount),
    addCapabilities: own.capabilities?.add,
    dropCapabilities: own.capabilities?.drop,
  };
}

function seccomp(
  pod: Pod,
  container: AnyContainer,
): Pick<DesiredContainer, "seccomp" | "seccompProfile"> {
  const seccompProfile = localhostProfile(pod, container);
  if (seccompProfile !== undefined) return { seccomp: "Localhost", seccompProfile };
  const { type } = container.securityContext?.seccompProfile ??
    pod.spec.securityContext?.seccompProfile ?? { type: undefined };
  return type === "RuntimeDefault" ? { seccomp: type } : {};
}

function procMount(kind: string | undefined): DesiredContainer["procMount"] {
  return kind === "Unmasked" ? kind : undefined;
}

function groupsPolicy(policy: string | undefined): DesiredContainer["supplementalGroupsPolicy"] {
  return policy === "Strict" ? policy : undefined;
}

function probesAndHooks(container: AnyContainer, budget: ExpansionBudget) {
  const probe = (each: Probe | undefined) => desiredProbe(container, each, budget);
  return {
    livenessProbe: probe(container.livenessProbe),
    readinessProbe: probe(container.readinessProbe),
    startupProbe: probe(container.startupProbe),
    postStart: desiredHook(container, container.lifecycle?.postStart),
    preStop: desiredHook(container, container.lifecycle?.preStop),
  };
}

function desiredProbe(
  container: AnyContainer,
  probe: Probe | undefined,
  budget: ExpansionBudget,
): DesiredProbe | undefined {
  if (!probe) return undefined;
  const { tcpSocket, grpc } = probe;
  const { exec, ...others } = action(container, probe);
  return defined({
    exec: exec && { command: exec.command.map(staticExpander(container, budget)) },
    ...others,
    tcpSocket: tcpSocket && defined({ ...portOf(container, tcpSocket.port), host: tcpSocket.host }),
    grpc: grpc && defined({ port: grpc.port, service: grpc.service }),
    initialDelaySeconds: probe.initialDelaySeconds,
    timeoutSeconds: probe.timeoutSeconds,
    periodSeconds: probe.periodSeconds,
    successThreshold: probe.successThreshold,
    failureThreshold: probe.failureThreshold,
    terminationGracePeriodSeconds: seconds(probe.terminationGracePeriodSeconds),
  });
}

/** Expands like the kubelet does for probe commands, but not for hooks: only with values in the container's `env` itself. */
function staticExpander(
  { env = [] }: AnyContainer,
  budget: ExpansionBudget,
): (text: string) => string {
  const variables = new Map(env.map(({ name, value = "" }) => [name, value]));
  return (text) => expandVariables(text, variables, budget);
}

function desiredHook(
  container: AnyContainer,
  handler: Handler | undefined,
): DesiredHook | undefined {
  if (!handler) return undefined;
  return defined({ ...action(container, handler), sleepSeconds: seconds(handler.sleep?.seconds) });
}

function seconds(wanted: number | undefined): number | undefined {
  return wanted === undefined ? undefined : limitSeconds(wanted);
}

/** The common part of probes and hooks: a command, or a request to an HTTP server. */
function action(container: AnyContainer, { exec, httpGet }: Pick<Handler, "exec" | "httpGet">) {
  return {
    exec: exec && { command: exec.command ?? [] },
    httpGet:
      httpGet &&
      defined({
        path: httpGet.path ?? "/",
        ...portOf(container, httpGet.port),
        host: httpGet.host,
        scheme: httpGet.scheme,
        headers: httpGet.httpHeaders,
      }),
  };
}

/** A port that is given by number, as a number or text, or by the name of one of the container's ports. */
function portOf(
  { ports = [] }: AnyContainer,
  port: number | string,
): { readonly port: number; readonly portName?: string } {
  if (typeof port === "number") return { port };
  const named = ports.find(({ name }) => name === port)?.containerPort;
  if (named !== undefined) return { port: named };
  return /^\d+$/.test(port) ? { port: Number(port) } : { port: 0, portName: port };
}
