import { decode, type Decoded } from "@kip/base";

const { boolean, integer, list, map, object, oneOf, optional, string } = decode;

const envVar = object({ name: string, value: string });

/** An amount of a disk, and how the API writes it. */
const amount = object({ bytes: integer, text: string });

const variable = object({
  name: string,
  /** Empty with one of the others. */
  value: string,
  /**
   * A file of a volume of the pod that has the value when the container starts, as `KEY=value`. If it is optional and has none, a
   * variable of the same name before this one stays.
   */
  file: optional(object({ volume: string, path: string, key: string, isOptional: boolean })),
  /** Text with `$(NAME)` references to variables before it, and `$$` for a dollar sign. */
  template: optional(string),
});

const keyToFile = object({
  /** Path below the volume's root, with slashes; never absolute, no "..". */
  path: string,
  /** Content in base64. */
  data: string,
  /** Permission bits, for example 0o644. */
  mode: integer,
  /** User as containers number them. @default 0 */
  owner: optional(integer),
});

const volume = object({
  name: string,
  /**
   * files: the agent writes `files` on a tmpfs and swaps them as one when they change;
   * emptyDir: an empty directory with the pod's life; hostPath: a path of the cell itself;
   * disk: a disk of its own that is plugged into the cell, formatted if it holds nothing;
   * image: the files of an image, only read.
   */
  kind: oneOf("files", "emptyDir", "hostPath", "disk", "image"),
  files: optional(list(keyToFile)),
  /** emptyDir: "Memory" for a tmpfs, "HugePages" or "HugePages-<size>" for huge pages, else disk. */
  medium: optional(string),
  /** emptyDir: the most that it may hold, and how the API writes that; 0 for no limit. */
  sizeLimitBytes: optional(integer),
  sizeLimit: optional(string),
  /** hostPath: the path and Kubernetes' type (`DirectoryOrCreate`, ...). */
  hostPath: optional(string),
  hostPathType: optional(string),
  /** image: its name, and when it is pulled. */
  image: optional(string),
  imagePullPolicy: optional(oneOf("Always", "IfNotPresent", "Never")),
  /** disk: the serial number it is found by, its file system, and whether it is only read. */
  serial: optional(string),
  fsType: optional(oneOf("ext4")),
  readOnly: optional(boolean),
});

const volumeMount = object({
  name: string,
  mountPath: string,
  subPath: optional(string),
  readOnly: optional(boolean),
  /** With `readOnly`: what is mounted below the volume's root is only read, too. */
  recursiveReadOnly: optional(boolean),
  /** What is mounted there later is seen in the container, or on both sides. @default on neither */
  propagation: optional(oneOf("HostToContainer", "Bidirectional")),
});

/** A port; where it is named and none of the container's ports has the name, this name and 0. */
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
  /** Liveness and startup: in place of the pod's, when this probe has the container killed. */
  terminationGracePeriodSeconds: optional(integer),
});

/** One without any of these fails, as a hook by tcpSocket does on a kubelet. */
const hook = object({
  exec: optional(object({ command: list(string) })),
  httpGet: optional(httpGet),
  sleepSeconds: optional(integer),
});

/** What a container, or the pod as a whole, asks for and may use; absent means nothing, and no limit. */
const amounts = {
  cpuMilliLimit: optional(integer),
  cpuMilliRequest: optional(integer),
  memoryBytesLimit: optional(integer),
  memoryBytesRequest: optional(integer),
};

/** Memory in pages of one size; both in bytes, the amount a multiple of the size. */
const hugePages = object({ pageBytes: integer, bytes: integer });

/** So many of an extended resource. */
const extendedResource = object({ resource: string, count: integer });

const restartRule = object({
  action: string,
  exitCodes: optional(object({ operator: string, values: optional(list(integer)) })),
});

const container = object({
  name: string,
  image: string,
  imagePullPolicy: oneOf("Always", "IfNotPresent", "Never"),
  /** Kubernetes' `command`: replaces the image's entrypoint. `$(VAR)` is already expanded. */
  command: optional(list(string)),
  /** Kubernetes' `args`: replaces the image's command. */
  args: optional(list(string)),
  workingDir: optional(string),
  env: list(variable),
  /** `command` and `args` are templates, as those of variables. @default false */
  hasLateArguments: optional(boolean),
  mounts: list(volumeMount),
  stdin: optional(boolean),
  stdinOnce: optional(boolean),
  tty: optional(boolean),
  /** Of the cell's disk, for what the container writes beside volumes, and its logs. */
  ephemeralStorage: optional(object({ limit: optional(amount), request: optional(amount) })),
  ...amounts,
  /** How much it may use of each size that the pod has; the others it may not use. @default none */
  hugePages: optional(list(hugePages)),
  /** Extended resources that it asks for: it gets the cell's devices of these kinds. @default none */
  extendedResources: optional(list(extendedResource)),
  /** What it had on the cell before: it has that again where this cell is too small for the pod. */
  granted: optional(object(amounts)),
  /** The resources of which a change restarts the container. @default none */
  resizeRestarts: optional(list(oneOf("cpu", "memory"))),
  user: optional(integer),
  group: optional(integer),
  runAsNonRoot: optional(boolean),
  supplementalGroups: optional(list(integer)),
  /** Strict: the groups that the image's /etc/group gives the user do not count. @default "Merge" */
  supplementalGroupsPolicy: optional(oneOf("Merge", "Strict")),
  privileged: optional(boolean),
  readOnlyRootFilesystem: optional(boolean),
  allowPrivilegeEscalation: optional(boolean),
  /** Which system calls are filtered; privileged containers make all. @default "Unconfined" */
  seccomp: optional(oneOf("RuntimeDefault", "Unconfined", "Localhost")),
  /** Localhost: name of one of the pod's profiles. */
  seccompProfile: optional(string),
  /** Unmasked: nothing of /proc and /sys is hidden or read-only. @default "Default" */
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
  /** The container's own; of an init container "Always" makes it a sidecar. @default the pod's */
  restartPolicy: optional(string),
  /** See `runsAgain`. @default none */
  restartPolicyRules: optional(list(restartRule)),
  /** Name of the signal that ends it, with SIG. @default the image's, else SIGTERM */
  stopSignal: optional(string),
  /** Only for ephemeral containers: the container whose processes it sees. */
  targetContainer: optional(string),
});

/** A filter of system calls, for containers that name it. */
const seccompProfile = object({
  name: string,
  /** In the form of the OCI runtime specification. */
  json: optional(string),
  /** Why there is none: its containers are not made, for this reason. */
  error: optional(string),
});

/** A port of the cell's own addresses that leads to one of the pod's. */
const hostPort = object({
  protocol: oneOf("TCP", "UDP", "SCTP"),
  hostPort: integer,
  containerPort: integer,
  /** The one address at which it answers, as `canonicalAddress` writes it. @default all of the cell, loopback too */
  hostIp: optional(string),
});

const account = object({
  /** Repositories it is for: those that begin with this; absent: all. */
  path: optional(string),
  username: string,
  password: string,
});

const registry = object({
  /** Host (and port) as it stands in image names. */
  host: string,
  /** Base URL to use instead of `https://<host>`, for example of a mirror or a plain-HTTP registry. */
  endpoint: optional(string),
  username: optional(string),
  password: optional(string),
  /** PEM certificates trusted for this registry besides the system's. */
  ca: optional(string),
  /** Base URLs of registries that are asked first, in this order; what else is known of them is in the entries of their hosts. */
  mirrors: optional(list(string)),
  /** Accounts to log in with, tried in this order before `username`. */
  accounts: optional(list(account)),
});

const imageSettings = object({
  /** Blobs that cells share; what is wrong or missing there comes from the registry. */
  cache: optional(
    object({
      /** Folder on the cell, absolute. */
      path: string,
      /** What to mount there first, if anything: `<server>:<path>`, by NFS 4. */
      nfs: optional(string),
      /** Mount options besides the agent's own, each a word or `name=value`. */
      options: optional(list(string)),
    }),
  ),
  /** `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`: for pulls alone, never for the pod. */
  proxy: optional(map(string)),
});

/** Decodes how images are got before there is a pod, as its document will have it. */
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
   * Rises with every change kip makes to the desired pod; the agent ignores a lower one.
   * Kip uses the time in microseconds at which it built the document.
   */
  generation: integer,
  /** The generation of the pod's object in the API. */
  podGeneration: optional(integer),
  /** What the cell has for its pod: a resize that asks for more is infeasible. @default no limit is known */
  machine: optional(object({ cpuMilli: integer, memoryBytes: integer })),
  /** The pod as a whole, besides its containers. */
  resources: optional(object(amounts)),
  /** What the cell has of the extended resources that are counted and nothing else, by its type. @default none */
  extendedResources: optional(list(extendedResource)),
  /** What the cell reserves for the pod. @default none */
  hugePages: optional(list(hugePages)),
  /** Added to what the pod as a whole asks for and may use. */
  overhead: optional(object({ cpuMilli: integer, memoryBytes: integer })),
  /** It never changes. @default "Burstable" */
  qosClass: optional(oneOf("Guaranteed", "Burstable", "BestEffort")),
  /** With the class system-node-critical: the kernel takes it last. */
  isNodeCritical: optional(boolean),
  restartPolicy: oneOf("Always", "OnFailure", "Never"),
  hostname: string,
  hostNetwork: boolean,
  /**
   * Where the pod's rules for Services and policies are for. Its containers start when those of the first change that
   * `POST /v1/network` brings are in force. Absent: no rules, and nothing is waited for.
   */
  network: optional(
    object({
      /** Addresses of the virtual node: NodePorts are answered there, and every pod lets them in. */
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
   * What the pod sends to addresses outside of these ranges, of either family, leaves with the cell's own address. Absent with
   * `hostNetwork`. @default everything keeps the pod's address
   */
  directRanges: optional(list(string)),
  /** `podIp` of IPv6, where the cell's network has it, and what the cell needs for it. */
  ipv6: optional(
    object({
      /** Address of the pod; absent with `hostNetwork`. */
      podIp: optional(string),
      /** Address that the cell gives itself. */
      machineIp: string,
      /** Next hop of all packets, a neighbour that needs no discovery. @default the router that the network advertises */
      gateway: optional(object({ address: string, mac: string })),
    }),
  ),
  labels: map(string),
  annotations: map(string),
  terminationGracePeriodSeconds: integer,
  activeDeadlineSeconds: optional(integer),
  /** Of the cell's disk, for all that the pod writes there. */
  ephemeralStorageLimit: optional(amount),
  /** Of such a priority that a kubelet does not evict it. @default false */
  isCritical: optional(boolean),
  /** For how long the pod has been active when this was sent, on earlier cells too; of the first document alone. @default 0 */
  activeForMs: optional(integer),
  shareProcessNamespace: optional(boolean),
  /** The containers are in the cell's own namespace of processes. */
  hostPID: optional(boolean),
  /** The containers are in the cell's own namespace of System V IPC and message queues, with its /dev/shm. */
  hostIPC: optional(boolean),
  /** false: users and groups of the containers are others on the cell, from 0 on. @default true */
  hostUsers: optional(boolean),
  fsGroup: optional(integer),
  sysctls: optional(list(envVar)),
  seccompProfiles: optional(list(seccompProfile)),
  /** Content of `/etc/resolv.conf`. */
  resolvConf: string,
  /** Content of `/etc/hosts`. With `hostNetwork` the agent puts the cell's own file behind its first line. */
  etcHosts: string,
  initContainers: list(container),
  containers: list(container),
  ephemeralContainers: optional(list(container)),
  volumes: list(volume),
  registries: list(registry),
  /** How the cell gets images, besides `registries`. */
  images: optional(imageSettings),
  /** How much of each container's log is kept: the size of a file in bytes, and how many. @default the kubelet's, 10 MiB and 5 */
  logs: optional(object({ maxFileBytes: integer, maxFiles: integer })),
});

/** Decodes the answer of `PUT /v1/pod`: the generation of the pod that the agent has now. */
export const decodePodTaken = object({ generation: optional(integer) });

/** Everything the agent needs to run a pod: all references resolved, all secrets inside. */
export type DesiredPod = Decoded<typeof decodeDesiredPod>;
export type DesiredIpv6 = NonNullable<DesiredPod["ipv6"]>;
export type DesiredNetwork = NonNullable<DesiredPod["network"]>;
export type DesiredHostPort = Decoded<typeof hostPort>;
export type DesiredContainer = Decoded<typeof container>;
export type DesiredSeccompProfile = Decoded<typeof seccompProfile>;
/** See the fields of a container of these names. */
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
