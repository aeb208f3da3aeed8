import {
  differs,
  elsewhere,
  refused,
  refusedAs,
  works,
  type FieldDecisions,
} from "./field-decision.ts";
import {
  containerMapping,
  endMessage,
  gatedFields,
  grpcProbe,
  inside,
  namesAndDebugging,
  realCell,
  resize,
  resolved,
  terminal,
} from "./tests.ts";

const probes = "packages/cell-agent/src/checks/container-probes.test.ts";
const tally =
  "packages/cell-agent/src/checks/probe-tally.test.ts: takes the thresholds it is given";
const security = "e2e/security.test.ts";
const hostIpShown =
  "e2e/service-variants.test.ts: host ports lead by SCTP, and at the address alone that hostIP names";
const lateEnv = "packages/cell-agent/src/container/late-env.test.ts";
const rules = "packages/cell-agent/test/kubelet-rules.int.test.ts";

const container: FieldDecisions = {
  args: works(inside),
  command: works(inside),
  env: works(inside, "EnvVar"),
  envFrom: works(inside, "EnvFromSource"),
  image: works(
    "e2e/images.test.ts: come from a mirror with a private CA, and with a pod's passwords and tokens",
  ),
  imagePullPolicy: works(
    "packages/cell-agent/src/image/obtain-image.test.ts: Never, image absent: ErrImageNeverPull",
  ),
  lifecycle: works(inside, "Lifecycle"),
  livenessProbe: works(`${probes}: has a container killed when its liveness probe fails`, "Probe"),
  name: works(realCell),
  ports: works(inside, "ContainerPort"),
  readinessProbe: works(`${probes}: reports readiness when it changes`, "Probe"),
  resizePolicy: works(resize, "ContainerResizePolicy"),
  resources: works(containerMapping.limits, "ResourceRequirements"),
  restartPolicy: works(containerMapping.restarts),
  restartPolicyRules: works(gatedFields, "ContainerRestartRule"),
  securityContext: works(inside, "SecurityContext"),
  startupProbe: works(
    `${probes}: waits with readiness until the startup probe has succeeded`,
    "Probe",
  ),
  stdin: works(terminal),
  stdinOnce: works(terminal),
  terminationMessagePath: works(endMessage),
  terminationMessagePolicy: works(endMessage),
  tty: works(terminal),
  volumeDevices: refused("cells do not have block devices of claims; mount a volume"),
  volumeMounts: works(realCell, "VolumeMount"),
  workingDir: works(inside),
};

/** Fields of containers and of their parts. */
export const containerFields: Readonly<Record<string, FieldDecisions>> = {
  Container: container,
  EphemeralContainer: {
    ...container,
    targetContainerName: works(namesAndDebugging),
  },
  EnvVar: {
    name: works(inside),
    value: works(inside),
    valueFrom: works(inside, "EnvVarSource"),
  },
  EnvVarSource: {
    configMapKeyRef: works(inside, "ConfigMapKeySelector"),
    fieldRef: works(inside, "ObjectFieldSelector"),
    fileKeyRef: works(gatedFields, "FileKeySelector"),
    resourceFieldRef: works(inside, "ResourceFieldSelector"),
    secretKeyRef: works(
      `${resolved.environment}: reads values from ConfigMaps and Secrets by key (V1)`,
      "SecretKeySelector",
    ),
  },
  ...Object.fromEntries(
    ["ConfigMapKeySelector", "SecretKeySelector"].map((type) => [
      type,
      {
        key: works(`${resolved.environment}: reads values from ConfigMaps and Secrets by key (V1)`),
        name: works(
          `${resolved.environment}: reads values from ConfigMaps and Secrets by key (V1)`,
        ),
        optional: works(
          `${resolved.environment}: treats a key without \`optional\` as mandatory (V8)`,
        ),
      },
    ]),
  ),
  FileKeySelector: {
    key: works(gatedFields),
    optional: works(`${lateEnv}: leaves out optional variables that have no value`),
    path: works(gatedFields),
    volumeName: works(gatedFields),
  },
  ContainerRestartRule: {
    action: refused(
      "cells restart only the container that has ended; use the action Restart",
      (action) => action !== "Restart",
    ),
    exitCodes: works(gatedFields, "ContainerRestartRuleOnExitCodes"),
  },
  ContainerRestartRuleOnExitCodes: {
    operator: works(gatedFields),
    values: works(gatedFields),
  },
  ObjectFieldSelector: {
    apiVersion: elsewhere("the API server"),
    fieldPath: works(inside),
  },
  ResourceFieldSelector: {
    containerName: works(inside),
    divisor: works(inside),
    resource: works(inside),
  },
  EnvFromSource: {
    configMapRef: works(inside, "ConfigMapEnvSource"),
    prefix: works(inside),
    secretRef: works(
      `${resolved.environment}: imports whole objects with a prefix, where later ones override earlier ones (V3, V4)`,
      "SecretEnvSource",
    ),
  },
  ...Object.fromEntries(
    ["ConfigMapEnvSource", "SecretEnvSource"].map((type) => [
      type,
      {
        name: works(
          `${resolved.environment}: imports whole objects with a prefix, where later ones override earlier ones (V3, V4)`,
        ),
        optional: works(
          `${resolved.environment}: skips missing optional objects and fails on missing mandatory ones, with an event each (V7)`,
        ),
      },
    ]),
  ),
  Lifecycle: {
    postStart: works(`${rules}: comes before probes and readiness`, "LifecycleHandler"),
    preStop: works(realCell, "LifecycleHandler"),
    stopSignal: works(gatedFields),
  },
  LifecycleHandler: {
    exec: works(realCell, "ExecAction"),
    httpGet: works(
      "packages/cell-agent/src/checks/handlers.test.ts: fails a probe, and no hook",
      "HTTPGetAction",
    ),
    sleep: works(inside, "SleepAction"),
    tcpSocket: refusedAs(
      "FailedPostStartHook, FailedPreStopHook",
      "The hook fails, as on every node.",
    ),
  },
  ExecAction: { command: works(realCell) },
  SleepAction: { seconds: works(inside) },
  HTTPGetAction: {
    host: works(containerMapping.probes),
    httpHeaders: works(inside, "HTTPHeader"),
    path: works(inside),
    port: works(inside),
    scheme: works(containerMapping.probes),
  },
  HTTPHeader: {
    name: works(
      "packages/cell-agent/src/checks/handlers.test.ts: sends each header as often as it is there, and an own value in place of a default",
    ),
    value: works(
      "packages/cell-agent/src/checks/handlers.test.ts: sends each header as often as it is there, and an own value in place of a default",
    ),
  },
  TCPSocketAction: {
    host: works(containerMapping.probes),
    port: works(inside),
  },
  GRPCAction: {
    port: works(grpcProbe),
    service: works(grpcProbe),
  },
  Probe: {
    exec: works(realCell, "ExecAction"),
    failureThreshold: works(tally),
    grpc: works(grpcProbe, "GRPCAction"),
    httpGet: works(inside, "HTTPGetAction"),
    initialDelaySeconds: works(containerMapping.probes),
    periodSeconds: works(realCell),
    successThreshold: works(tally),
    tcpSocket: works(inside, "TCPSocketAction"),
    terminationGracePeriodSeconds: works(`${rules}: is that of the container which it has killed`),
    timeoutSeconds: works(`${probes}: makes probes whose time limit is longer than a timer can be`),
  },
  ContainerPort: {
    containerPort: works(inside),
    hostIP: works(hostIpShown),
    hostPort: works(
      "e2e/services.test.ts: leave host ports, which lead to the pod from everywhere",
    ),
    name: works(inside),
    protocol: works(hostIpShown),
  },
  ContainerResizePolicy: {
    resourceName: works(resize),
    restartPolicy: works(resize),
  },
  ResourceRequirements: {
    claims: refused("cells do not have devices of claims; choose an instance type with the device"),
    limits: differs(
      "cpu and memory as on any node, also resized in place, and they choose the machine; a resize beyond it is Infeasible. Those of the pod as a whole are not resized: from 1.36 on, the API server refuses that for nodes that do not declare it. ephemeral-storage as on any node: the pod is evicted. Huge pages as on any node. Extended resources choose the machine, and bring the devices that files of the Container Device Interface on the cell describe; those that neither the type nor the cell has have no effect, as on a node without them.",
    ),
    requests: works(
      "packages/kip/src/selection/pod-resources.test.ts: takes limits before requests and sums containers",
    ),
  },
  SecurityContext: {
    allowPrivilegeEscalation: works(inside),
    appArmorProfile: refusedAs(
      "AppArmor",
      "Cannot enforce AppArmor: AppArmor is not enabled on the host. Unconfined is taken.",
    ),
    capabilities: works(inside, "Capabilities"),
    privileged: works(
      "e2e/cell-rights.test.ts: a privileged container has the devices of its cell",
    ),
    procMount: works(`${security}: with procMount Unmasked has all of /proc, as it is`),
    readOnlyRootFilesystem: works(realCell),
    runAsGroup: works(inside),
    runAsNonRoot: works(
      "packages/cell-agent/src/container/container-spec.test.ts: refuses root where the pod forbids it, in the kubelet's words",
    ),
    runAsUser: works(inside),
    seLinuxOptions: differs("Cells do not have SELinux: no effect, as on any node without it."),
    seccompProfile: works(containerMapping.security, "SeccompProfile"),
    windowsOptions: elsewhere("nodes of Windows"),
  },
  Capabilities: {
    add: works(
      "packages/oci-runtime/src/bundle/build-spec.test.ts: adds and drops by name and all at once",
    ),
    drop: works(inside),
  },
};
