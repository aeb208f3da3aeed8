import { decode, type Decoded } from "@kip/base";

const { boolean, integer, list, map, object, oneOf, optional, string } = decode;

const envVar = object({ name: string, value: string });

/** An amount of disk space, and how the API writes it. */
const amount = object({ bytes: integer, text: string });

const variable = object({
  name: string,
  /** Empty if one of the other fields is set. */
  value: string,
  /**
   * A file of one of the pod's volumes with `KEY=value` lines, which has the value when the container starts. If it is optional
   * and has no value, an earlier variable of the same name keeps its value.
   */
  file: optional(object({ volume: string, path: string, key: string, isOptional: boolean })),
  /** Text with `$(NAME)` references to earlier variables, and `$$` for a dollar sign. */
  template: optional(string),
});

const keyToFile = object({
  /** Path below the volume's root, with slashes. Never absolute, and without "..". */
  path: string,
  /** Content in base64. */
  data: string,
  /** Permission bits, for example 0o644. */
  mode: integer,
  /** User ID inside of containers. @default 0 */
  owner: optional(integer),
});

const volume = object({
  name: string,
  /**
   * - files: the agent writes `files` on a tmpfs and replaces all of them at once when they change
   * - emptyDir: an empty folder that lives as long as the pod
   * - hostPath: a path on the cell itself
   * - disk: a disk that is attached to the cell, and formatted if it is empty
   * - image: the files of an image, read-only
   */
  kind: oneOf("files", "emptyDir", "hostPath", "disk", "image"),
  files: optional(list(keyToFile)),
  /** files: they are not known at present, and those that are there stay. @default false */
  keepsFiles: optional(boolean),
  /** emptyDir: "Memory" for a tmpfs, "HugePages" or "HugePages-<size>" for huge pages, otherwise disk. */
  medium: optional(string),
  /** emptyDir: size limit, and how the API writes it. 0 for no limit. */
  sizeLimitBytes: optional(integer),
  sizeLimit: optional(string),
  /** hostPath: the path and Kubernetes' type (`DirectoryOrCreate`, ...). */
  hostPath: optional(string),
  hostPathType: optional(string),
  /** image: its name, and when to pull it. */
  image: optional(string),
  imagePullPolicy: optional(oneOf("Always", "IfNotPresent", "Never")),
  /** disk: its serial number, its file system, and whether it is mounted read-only. */
  serial: optional(string),
  fsType: optional(oneOf("ext4")),
  readOnly: optional(boolean),
});

const volumeMount = object({
  name: string,
  mountPath: string,
  subPath: optional(string),
  /** Instead of `subPath`: a template like those of variables. Each of its variables needs a value. */
  subPathTemplate: optional(string),
  readOnly: optional(boolean),
  /** With `readOnly`: mounts below the volume's root are also read-only. */
  recursiveReadOnly: optional(boolean),
  /** Whether later mounts appear in the container, or on both sides. @default on neither */
  propagation: optional(oneOf("HostToContainer", "Bidirectional")),
});

/** A port. If it is given by a name that none of the container's ports has, this name and 0. */
const port = { port: integer, portName: optional(string) };

const httpGet = object({
  path: string,
  ...port,
  host: optional(string),
  scheme: optional(string),
  headers: optional(list(envVar)),
});

const probe = object({
  exec: optional(object({ command: list(string) })),
  httpGet: optional(httpGet),
  tcpSocket: optional(object({ ...port, host: optional(string) })),
  grpc: optional(object({ port: integer, service: optional(string) })),
  initialDelaySeconds: optional(integer),
  timeoutSeconds: optional(integer),
  periodSeconds: optional(integer),
  successThreshold: optional(integer),
  failureThreshold: optional(integer),
  /** Liveness and startup: replaces the pod's grace period if the container is killed because of this probe. */
  terminationGracePeriodSeconds: optional(integer),
});

/** A hook without any of these fields fails, like a `tcpSocket` hook on a kubelet. */
const hook = object({
  exec: optional(object({ command: list(string) })),
  httpGet: optional(httpGet),
  sleepSeconds: optional(integer),
});

/** Requests and limits of a container, or of the pod as a whole. Absent means no request or no limit. */
const amounts = {
  cpuMilliLimit: optional(integer),
  cpuMilliRequest: optional(integer),
  memoryBytesLimit: optional(integer),
  memoryBytesRequest: optional(integer),
};

/** Memory in pages of one size. Both are bytes, and the amount is a multiple of the size. */
const hugePages = object({ pageBytes: integer, bytes: integer });

/** An amount of an extended resource. */
const extendedResource = object({ resource: string, count: integer });

const restartRule = object({
  action: string,
  exitCodes: optional(object({ operator: string, values: optional(list(integer)) })),
});

const container = object({
  name: string,
  image: string,
  imagePullPolicy: oneOf("Always", "IfNotPresent", "Never"),
  /** Why it cannot be created yet. Its environment is then not complete. @default it can */
  configProblem: optional(string),
  /** Kubernetes' `command`, which replaces the image's entrypoint. `$(VAR)` is already expanded. */
  command: optional(list(string)),
  /** Kubernetes' `args`, which replaces the image's command. */
  args: optional(list(string)),
  workingDir: optional(string),
  env: list(variable),
  /** Whether `command` and `args` are templates like those of variables. @default false */
  hasLateArguments: optional(boolean),
  mounts: list(volumeMount),
  stdin: optional(boolean),
  stdinOnce: optional(boolean),
  tty: optional(boolean),
  /** Disk space for the container's logs and for what it writes outside of volumes. */
  ephemeralStorage: optional(object({ limit: optional(amount), request: optional(amount) })),
  ...amounts,
  /** How much it may use of each page size of the pod. Other sizes are not allowed. @default none */
  hugePages: optional(list(hugePages)),
  /** Requested extended resources. The container gets the cell's devices of these kinds. @default none */
  extendedResources: optional(list(extendedResource)),
  /** Resources that the container had on this cell before. It gets them again if the cell is too small for the pod. */
  granted: optional(object(amounts)),
  /** Resources whose change restarts the container. @default none */
  resizeRestarts: optional(list(oneOf("cpu", "memory"))),
  user: optional(integer),
  group: optional(integer),
  runAsNonRoot: optional(boolean),
  supplementalGroups: optional(list(integer)),
  /** Strict: ignores the user's groups in the image's /etc/group. @default "Merge" */
  supplementalGroupsPolicy: optional(oneOf("Merge", "Strict")),
  privileged: optional(boolean),
  readOnlyRootFilesystem: optional(boolean),
  allowPrivilegeEscalation: optional(boolean),
  /** The system call filter. Privileged containers are not filtered. @default "Unconfined" */
  seccomp: optional(oneOf("RuntimeDefault", "Unconfined", "Localhost")),
  /** Localhost: name of one of the pod's profiles. */
  seccompProfile: optional(string),
  /** Unmasked: all of /proc and /sys is visible and writable. @default "Default" */
  procMount: optional(oneOf("Default", "Unmasked")),
  addCapabilities: optional(list(string)),
  dropCapabilities: optional(list(string)),
  livenessProbe: optional(probe),
  readinessProbe: optional(probe),
  startupProbe: optional(probe),
  postStart: optional(hook),
  preStop: optional(hook),
  terminationMessagePath: string,
  terminationMessagePolicy: oneOf("File", "FallbackToLogsOnError"),
  /** The container's own policy. "Always" makes an init container a sidecar. @default the pod's */
  restartPolicy: optional(string),
  /** See `runsAgain`. @default none */
  restartPolicyRules: optional(list(restartRule)),
  /** Name of the signal that stops it, with SIG. @default the image's, or SIGTERM */
  stopSignal: optional(string),
  /** Only for ephemeral containers: the container whose processes are visible to it. */
  targetContainer: optional(string),
});

/** A system call filter for containers that refer to it by name. */
const seccompProfile = object({
  name: string,
  /** In the format of the OCI runtime specification. */
  json: optional(string),
  /** Why the profile is not available. Its containers are not created, for this reason. */
  error: optional(string),
});

/** A port of the cell's own addresses that is forwarded to a port of the pod. */
const hostPort = object({
  protocol: oneOf("TCP", "UDP", "SCTP"),
  hostPort: integer,
  containerPort: integer,
  /**
   * The only address at which it is open, in the form of `canonicalAddress`. @default all addresses of the cell, including
   * loopback
   */
  hostIp: optional(string),
});

const account = object({
  /** Prefix of the repositories that it is for. Absent: all. */
  path: optional(string),
  username: string,
  password: string,
});

const registry = object({
  /** Host (and port) as written in image names. */
  host: string,
  /** Base URL to use instead of `https://<host>`, for example for a mirror or a plain-HTTP registry. */
  endpoint: optional(string),
  username: optional(string),
  password: optional(string),
  /** PEM certificates that are trusted for this registry in addition to the system's. */
  ca: optional(string),
  /** Base URLs of registries to try first, in this order. The entries for their hosts have their other settings. */
  mirrors: optional(list(string)),
  /** Accounts to log in with. They are tried in this order, before `username`. */
  accounts: optional(list(account)),
});

const imageSettings = object({
  /** A blob cache that cells share. Blobs that are missing or damaged there come from the registry. */
  cache: optional(
    object({
      /** Absolute path of the folder on the cell. */
      path: string,
      /** What to mount there first: `<server>:<path>`, by NFS 4. Absent: nothing. */
      nfs: optional(string),
      /** Additional mount options, each a word or `name=value`. */
      options: optional(list(string)),
    }),
  ),
  /** `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`. Only for pulls, not for the pod. */
  proxy: optional(map(string)),
});

/** Decodes the settings for pulling images before the cell has a pod. They are the same as in the pod's document. */
export const decodeImagePull = object({
  registries: list(registry),
  /** See {@link DesiredImageSettings}. */
  proxy: optional(map(string)),
});
/** @see decodeImagePull */
export type ImagePull = Decoded<typeof decodeImagePull>;

/** Decodes the body of `PUT /v1/pod`. */
export const decodeDesiredPod = object({
  uid: string,
  namespace: string,
  name: string,
  /**
   * Increases with every change that kip makes to the desired pod. The agent ignores a lower one. Kip uses the time in
   * microseconds at which it built the document.
   */
  generation: integer,
  /** The generation of the pod's object in the API. */
  podGeneration: optional(integer),
  /** The cell's resources for its pod. A resize that exceeds them is infeasible. @default no limit is known */
  machine: optional(object({ cpuMilli: integer, memoryBytes: integer })),
  /** Requests and limits of the pod as a whole, in addition to those of its containers. */
  resources: optional(object(amounts)),
  /** The cell's extended resources that are only counted, by its instance type. @default none */
  extendedResources: optional(list(extendedResource)),
  /** Huge pages that the cell reserves for the pod. @default none */
  hugePages: optional(list(hugePages)),
  /** Added to the pod-level requests and limits. */
  overhead: optional(object({ cpuMilli: integer, memoryBytes: integer })),
  /** Never changes. @default "Burstable" */
  qosClass: optional(oneOf("Guaranteed", "Burstable", "BestEffort")),
  /** Whether the pod has the class system-node-critical. The kernel kills it last. */
  isNodeCritical: optional(boolean),
  restartPolicy: oneOf("Always", "OnFailure", "Never"),
  hostname: string,
  hostNetwork: boolean,
  /**
   * Where the pod's rules for Services and policies apply. Its containers start when the first change from `POST /v1/network`
   * is in force. Absent: no rules, and no wait.
   */
  network: optional(
    object({
      /** Addresses of the virtual node. They answer NodePorts, and every pod accepts their packets. */
      nodeAddresses: list(string),
      /** CIDRs of ClusterIPs. */
      serviceRanges: list(string),
    }),
  ),
  /** Address of the pod; absent with `hostNetwork`. */
  podIp: optional(string),
  /** Absent with `hostNetwork`. @default none */
  hostPorts: optional(list(hostPort)),
  /**
   * Packets of the pod to addresses outside of these ranges, of either IP family, get the cell's own address as their source.
   * Absent with `hostNetwork`. @default all packets keep the pod's address
   */
  directRanges: optional(list(string)),
  /** The pod's IPv6 address, if the cell's network has IPv6, and the settings for it. */
  ipv6: optional(
    object({
      /** Address of the pod; absent with `hostNetwork`. */
      podIp: optional(string),
      /** Address of the cell itself. */
      machineIp: string,
      /** Next hop of all packets, a neighbour that needs no discovery. @default the router that the network advertises */
      gateway: optional(object({ address: string, mac: string })),
    }),
  ),
  labels: map(string),
  annotations: map(string),
  terminationGracePeriodSeconds: integer,
  activeDeadlineSeconds: optional(integer),
  /** Limit of all that the pod writes to the cell's disk. */
  ephemeralStorageLimit: optional(amount),
  /** Whether the pod's priority is so high that a kubelet does not evict it. @default false */
  isCritical: optional(boolean),
  /**
   * How long the pod had been active when this was sent, including time on earlier cells. Only in the first document. @default
   * 0
   */
  activeForMs: optional(integer),
  shareProcessNamespace: optional(boolean),
  /** Whether the containers are in the cell's own process namespace. */
  hostPID: optional(boolean),
  /** Whether the containers are in the cell's own namespace of System V IPC and message queues, with its /dev/shm. */
  hostIPC: optional(boolean),
  /** false: users and groups of the containers have other IDs on the cell, including 0. @default true */
  hostUsers: optional(boolean),
  fsGroup: optional(integer),
  sysctls: optional(list(envVar)),
  seccompProfiles: optional(list(seccompProfile)),
  /** Content of `/etc/resolv.conf`. */
  resolvConf: string,
  /** Content of `/etc/hosts`. With `hostNetwork`, the agent inserts the cell's own file after the first line. */
  etcHosts: string,
  initContainers: list(container),
  containers: list(container),
  ephemeralContainers: optional(list(container)),
  volumes: list(volume),
  registries: list(registry),
  /** How the cell gets images, in addition to `registries`. */
  images: optional(imageSettings),
  /**
   * Limits of each container's log: maximum size of a file in bytes, and number of files. @default the kubelet's, 10 MiB and 5
   */
  logs: optional(object({ maxFileBytes: integer, maxFiles: integer })),
});

/** Decodes the response to `PUT /v1/pod`: the generation of the pod that the agent has now. */
export const decodePodTaken = object({ generation: optional(integer) });

/** Everything that the agent needs to run a pod. All references are resolved, and all Secrets are included. */
export type DesiredPod = Decoded<typeof decodeDesiredPod>;
export type DesiredIpv6 = NonNullable<DesiredPod["ipv6"]>;
export type DesiredNetwork = NonNullable<DesiredPod["network"]>;
export type DesiredHostPort = Decoded<typeof hostPort>;
export type DesiredContainer = Decoded<typeof container>;
export type DesiredSeccompProfile = Decoded<typeof seccompProfile>;
/** See the fields of the same names of a container. */
export type ResourceAmounts = Pick<DesiredContainer, keyof typeof amounts>;
export type DesiredExtendedResource = Decoded<typeof extendedResource>;
export type DesiredHugePages = Decoded<typeof hugePages>;
export type DesiredVolume = Decoded<typeof volume>;
export type DesiredVolumeMount = Decoded<typeof volumeMount>;
export type DesiredVariable = Decoded<typeof variable>;
export type DesiredProbe = Decoded<typeof probe>;
export type DesiredHook = Decoded<typeof hook>;
export type DesiredRegistry = Decoded<typeof registry>;
export type DesiredLogs = NonNullable<DesiredPod["logs"]>;
export type DesiredImageSettings = Decoded<typeof imageSettings>;
