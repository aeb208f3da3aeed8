import {
  differs,
  elsewhere,
  refused,
  refusedAs,
  works,
  type FieldDecisions,
} from "./field-decision.ts";
import { containerMapping, gatedFields, realCell, resolved } from "./tests.ts";

const probes = "packages/cell-agent/src/checks/container-probes.test.ts";
const tally =
  "packages/cell-agent/src/checks/probe-tally.test.ts: takes the thresholds it is given";
const security = "e2e/security.test.ts";
const lateEnv = "packages/cell-agent/src/container/late-env.test.ts";
const rules = "packages/cell-agent/test/kubelet-rules.int.test.ts";

const container: FieldDecisions = {
  args: works(containerMapping.variables),
  command: works(containerMapping.variables),
  env: works(`${resolved.environment}: composes values and keeps empty ones (V10)`, "EnvVar"),
  envFrom: works(
    `${resolved.environment}: imports whole objects with a prefix, where later ones override earlier ones (V3, V4)`,
    "EnvFromSource",
  ),
  image: works(
    "e2e/images.test.ts: come from a mirror with a private CA, and with a pod's passwords and tokens",
  ),
  imagePullPolicy: works(
    "packages/cell-agent/src/image/obtain-image.test.ts: Never, image absent: ErrImageNeverPull",
  ),
  lifecycle: works(containerMapping.hooks, "Lifecycle"),
  livenessProbe: works(`${probes}: has a container killed when its liveness probe fails`, "Probe"),
  name: works(realCell),
  ports: works(containerMapping.probes, "ContainerPort"),
  readinessProbe: works(`${probes}: tells readiness as it changes`, "Probe"),
  resizePolicy: works(
    "e2e/resources.test.ts: change in place, with restarts where wanted, and not beyond the cell",
    "ContainerResizePolicy",
  ),
  resources: works(containerMapping.limits, "ResourceRequirements"),
  restartPolicy: works(containerMapping.restarts),
  restartPolicyRules: works(gatedFields, "ContainerRestartRule"),
  securityContext: works(containerMapping.security, "SecurityContext"),
  startupProbe: works(
    `${probes}: waits with readiness until the startup probe has succeeded`,
    "Probe",
  ),
  stdin: works(containerMapping.terminal),
  stdinOnce: works(containerMapping.terminal),
  terminationMessagePath: works(containerMapping.terminal),
  terminationMessagePolicy: works(
    "packages/cell-agent/src/container/termination-message.test.ts: takes the last 80 lines of the log",
  ),
  tty: works(containerMapping.terminal),
  volumeDevices: refused("cells do not have block devices of claims; mount a volume"),
  volumeMounts: works(realCell, "VolumeMount"),
  workingDir: works(containerMapping.terminal),
};

/** Fields of containers and of their parts. */
export const containerFields: Readonly<Record<string, FieldDecisions>> = {
  Container: container,
  EphemeralContainer: {
    ...container,
    targetContainerName: works(containerMapping.target),
  },
  EnvVar: {
    name: works(`${resolved.environment}: composes values and keeps empty ones (V10)`),
    value: works(`${resolved.environment}: composes values and keeps empty ones (V10)`),
    valueFrom: works(
      `${resolved.environment}: reads values from ConfigMaps and Secrets by key (V1)`,
      "EnvVarSource",
    ),
  },
  EnvVarSource: {
    configMapKeyRef: works(
      `${resolved.environment}: reads values from ConfigMaps and Secrets by key (V1)`,
      "ConfigMapKeySelector",
    ),
    fieldRef: works(
      `${resolved.environment}: reads values from fields of the pod (V2)`,
      "ObjectFieldSelector",
    ),
    fileKeyRef: works(gatedFields, "FileKeySelector"),
    resourceFieldRef: works(
      "packages/virtual-kubelet/src/environment/resource-reference.test.ts: shows the machine's size in place of a limit that is not set",
      "ResourceFieldSelector",
    ),
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
    action: works(gatedFields),
    exitCodes: works(gatedFields, "ContainerRestartRuleOnExitCodes"),
  },
  ContainerRestartRuleOnExitCodes: {
    operator: works(gatedFields),
    values: works(gatedFields),
  },
  ObjectFieldSelector: {
    apiVersion: elsewhere("the API server"),
    fieldPath: works(`${resolved.environment}: reads values from fields of the pod (V2)`),
  },
  ResourceFieldSelector: {
    containerName: works(
      `${resolved.environment}: computes resources in units of the divisor, rounded up`,
    ),
    divisor: works(
      `${resolved.environment}: computes resources in units of the divisor, rounded up`,
    ),
    resource: works(
      `${resolved.environment}: computes resources in units of the divisor, rounded up`,
    ),
  },
  EnvFromSource: {
    configMapRef: works(
      `${resolved.environment}: imports whole objects with a prefix, where later ones override earlier ones (V3, V4)`,
      "ConfigMapEnvSource",
    ),
    prefix: works(
      `${resolved.environment}: imports whole objects with a prefix, where later ones override earlier ones (V3, V4)`,
    ),
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
    sleep: works(
      "packages/cell-agent/src/checks/handlers.test.ts: sleeps until it is cut short, also longer than a timer can",
      "SleepAction",
    ),
    tcpSocket: refusedAs(
      "FailedPostStartHook, FailedPreStopHook",
      "The hook fails, as on every node.",
    ),
  },
  ExecAction: { command: works(realCell) },
  SleepAction: { seconds: works(containerMapping.hooks) },
  HTTPGetAction: {
    host: works(containerMapping.probes),
    httpHeaders: works(
      "packages/cell-agent/src/checks/handlers.test.ts: sends each header as often as it is there, and an own value in place of a default",
      "HTTPHeader",
    ),
    path: works(containerMapping.probes),
    port: works(containerMapping.probes),
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
    port: works(containerMapping.probes),
  },
  GRPCAction: {
    port: works(containerMapping.grpc),
    service: works("packages/cell-agent/src/checks/handlers.test.ts: names the service"),
  },
  Probe: {
    exec: works(realCell, "ExecAction"),
    failureThreshold: works(tally),
    grpc: works(containerMapping.grpc, "GRPCAction"),
    httpGet: works(containerMapping.probes, "HTTPGetAction"),
    initialDelaySeconds: works(containerMapping.probes),
    periodSeconds: works(realCell),
    successThreshold: works(tally),
    tcpSocket: works(containerMapping.probes, "TCPSocketAction"),
    terminationGracePeriodSeconds: works(`${rules}: is that of the container which it has killed`),
    timeoutSeconds: works(`${probes}: makes probes whose time limit is longer than a timer can be`),
  },
  ContainerPort: {
    containerPort: works(containerMapping.probes),
    hostIP: works(
      "packages/kip/src/dispatch/host-ports.test.ts: answer at the cell's address in place of the virtual node's",
    ),
    hostPort: works(
      "e2e/services.test.ts: leave host ports, which lead to the pod from everywhere",
    ),
    name: works(containerMapping.probes),
    protocol: works(
      "e2e/services.test.ts: leave host ports, which lead to the pod from everywhere",
    ),
  },
  ContainerResizePolicy: {
    resourceName: works(containerMapping.resizes),
    restartPolicy: works(containerMapping.resizes),
  },
  ResourceRequirements: {
    claims: refused("cells do not have devices of claims; choose an instance type with the device"),
    limits: differs(
      "cpu and memory as on any node, also resized in place, and they choose the machine; a resize beyond it is Infeasible. ephemeral-storage as on any node: the pod is evicted. Huge pages as on any node. Extended resources choose the machine, and bring the devices that files of the Container Device Interface on the cell describe; those that neither the type nor the cell has have no effect, as on a node without them.",
    ),
    requests: works(
      "packages/kip/src/selection/pod-resources.test.ts: takes limits before requests and sums containers",
    ),
  },
  SecurityContext: {
    allowPrivilegeEscalation: works(containerMapping.security),
    appArmorProfile: refusedAs(
      "AppArmor",
      "Cannot enforce AppArmor: AppArmor is not enabled on the host. Unconfined is taken.",
    ),
    capabilities: works(containerMapping.security, "Capabilities"),
    privileged: works(
      "e2e/cell-rights.test.ts: a privileged container has the devices of its cell",
    ),
    procMount: works(`${security}: with procMount Unmasked has all of /proc, as it is`),
    readOnlyRootFilesystem: works(realCell),
    runAsGroup: works(containerMapping.security),
    runAsNonRoot: works(
      "packages/cell-agent/src/container/container-spec.test.ts: refuses root where the pod forbids it, in the kubelet's words",
    ),
    runAsUser: works(containerMapping.security),
    seLinuxOptions: differs("Cells do not have SELinux: no effect, as on any node without it."),
    seccompProfile: works(containerMapping.security, "SeccompProfile"),
    windowsOptions: elsewhere("nodes of Windows"),
  },
  Capabilities: {
    add: works(
      "packages/oci-runtime/src/bundle/build-spec.test.ts: adds and drops by name and all at once",
    ),
    drop: works(
      "packages/oci-runtime/src/bundle/build-spec.test.ts: adds and drops by name and all at once",
    ),
  },
};
