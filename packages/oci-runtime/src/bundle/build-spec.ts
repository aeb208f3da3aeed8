import { defined } from "@kip/base";
import type {
  ContainerMount,
  ContainerResources,
  ContainerSpec,
} from "../contract/container-spec.ts";
import type { UserNamespace } from "../contract/pod-sandbox.ts";
import {
  cpuPeriodMicroseconds,
  cpuQuota,
  cpuWeight,
  hugePageFiles,
} from "../limits/cgroup-limits.ts";
import { chooseCapabilities } from "./capabilities.ts";
import type { MachineFacts } from "./machine-facts.ts";
import { runtimeDefaultSeccomp } from "./seccomp-profile.ts";
import type { OciDevice, OciLinux, OciMount, OciProcess, OciSeccomp, OciSpec } from "./oci-spec.ts";

/** Parts of /proc and /sys that reveal or change too much. Container runtimes hide the same ones. */
const maskedPaths = [
  "/proc/acpi",
  "/proc/asound",
  "/proc/interrupts",
  "/proc/kcore",
  "/proc/keys",
  "/proc/latency_stats",
  "/proc/sched_debug",
  "/proc/scsi",
  "/proc/timer_list",
  "/proc/timer_stats",
  "/sys/devices/virtual/powercap",
  "/sys/firmware",
];
const readonlyPaths = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/** RLIM_INFINITY is 2^64 - 1, which is not a safe integer in JavaScript. crun reads -1 as the same 64 bits. */
const noLimit = -1;

/**
 * Makes a container's OCI configuration. Pure.
 *
 * @param devices the machine's present device nodes, for privileged containers
 * @throws {RuntimeError} `CAPABILITY_UNKNOWN`
 */
export function buildSpec(
  spec: ContainerSpec,
  machine: MachineFacts,
  devices: readonly OciDevice[] = [],
): OciSpec {
  const privileged = spec.privileged ?? false;
  const { sandbox } = spec;
  const process = mainProcess(spec, machine);
  const isUnmasked = privileged || spec.isProcUnmasked === true;
  return {
    ociVersion: "1.0.2",
    process,
    root: { path: spec.rootfs, readonly: spec.readOnlyRootfs ?? false },
    // crun refuses a host name without a UTS namespace. Such a pod has the machine's host name.
    hostname: sandbox.utsNamespace === undefined ? undefined : sandbox.hostname,
    mounts: mounts(spec, privileged),
    hooks: hooks(spec),
    linux: {
      namespaces: namespaces(spec),
      ...rootfsPropagation(spec.mounts),
      ...idMappings(sandbox.userNamespace),
      cgroupsPath: containerCgroup(spec),
      resources: {
        devices: [{ allow: privileged, access: "rwm" }, ...deviceRules(spec)],
        ...limits(spec.resources ?? {}),
      },
      devices: deviceNodes(spec, privileged ? devices : []),
      maskedPaths: isUnmasked ? [] : [...maskedPaths, ...machine.maskedPaths],
      readonlyPaths: isUnmasked ? [] : readonlyPaths,
      seccomp: privileged ? undefined : seccomp(spec, process),
    },
  };
}

/** The container's own nodes replace the machine's nodes with the same paths. */
function deviceNodes(
  { devices = [] }: ContainerSpec,
  machines: readonly OciDevice[],
): readonly OciDevice[] {
  const own = devices.map(({ access: _access, ...node }): OciDevice => node);
  const paths = new Set(own.map(({ path }) => path));
  return [...machines.filter(({ path }) => !paths.has(path)), ...own];
}

function deviceRules({ devices = [] }: ContainerSpec): OciLinux["resources"]["devices"] {
  return devices.map(({ type, major, minor, access }) => {
    return { allow: true, type, major, minor, access };
  });
}

function hooks({ hooks: all = [] }: ContainerSpec): OciSpec["hooks"] {
  if (all.length === 0) return undefined;
  const byKind = Object.groupBy(all, ({ kind }) => kind);
  return Object.fromEntries(
    Object.entries(byKind).map(([kind, some]) => [
      kind,
      some.map(({ path, args, env, timeout }) => defined({ path, args, env, timeout })),
    ]),
  );
}

function seccomp(spec: ContainerSpec, process: OciProcess): OciLinux["seccomp"] {
  if (spec.seccomp === "RuntimeDefault")
    return runtimeDefaultSeccomp(process.capabilities.bounding);
  if (spec.seccomp === undefined || spec.seccomp === "Unconfined") return undefined;
  // The caller has checked that it is JSON. crun reports other errors in it.
  return JSON.parse(spec.seccomp.profile) as OciSeccomp;
}

/** @throws {RuntimeError} `CAPABILITY_UNKNOWN` */
function mainProcess(spec: ContainerSpec, machine: MachineFacts): OciProcess {
  const { privileged = false } = spec;
  const capabilities = chooseCapabilities({
    privileged,
    add: spec.addCapabilities ?? [],
    drop: spec.dropCapabilities ?? [],
    available: machine.capabilities,
  });
  return {
    terminal: spec.tty,
    user: spec.user,
    args: spec.args,
    env: environment(spec),
    cwd: spec.cwd,
    // Neither inheritable nor ambient, so that a program run by another user does not get them (CVE-2022-24769).
    capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
    noNewPrivileges: !privileged && spec.allowPrivilegeEscalation === false,
    oomScoreAdj: spec.oomScoreAdj ?? 0,
    rlimits: resourceLimits(machine),
  };
}

/** The resource limits of a container in containerd, with the settings of its systemd unit. */
function resourceLimits({ capabilities, openFilesLimit }: MachineFacts): OciProcess["rlimits"] {
  // Some programs close every possible descriptor. A soft limit of 1024 keeps them fast.
  const soft = Math.min(1024, openFilesLimit);
  const files = { type: "RLIMIT_NOFILE", soft, hard: Math.min(524_288, openFilesLimit) };
  if (!capabilities.includes("CAP_SYS_RESOURCE")) return [files];
  // The pod's cgroup limits its processes. The kernel's limit would count all processes of a user together.
  const unlimited = { soft: noLimit, hard: noLimit };
  return [files, { type: "RLIMIT_NPROC", ...unlimited }, { type: "RLIMIT_CORE", ...unlimited }];
}

/**
 * Makes the container's whole mount tree private, unless a mount needs propagation. Mounts that are not connected to the
 * machine's mounts when the container is created cannot be connected later. containerd does the same.
 */
function rootfsPropagation(mounts: readonly ContainerMount[]): Pick<OciLinux, "rootfsPropagation"> {
  const isAny = (kind: string): boolean =>
    mounts.some(({ options = [] }) => options.includes(kind));
  if (isAny("rshared")) return { rootfsPropagation: "rshared" };
  return isAny("rslave") ? { rootfsPropagation: "rslave" } : {};
}

/** The container's cgroup, relative to the root of the cgroup tree. */
export function containerCgroup(spec: Pick<ContainerSpec, "id" | "sandbox">): string {
  return `${spec.sandbox.cgroupParent}/${spec.id}`;
}

function environment(spec: ContainerSpec): readonly string[] {
  const names = new Set(spec.env.map((entry) => entry.split("=", 1)[0]));
  const added = [
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    `HOSTNAME=${spec.sandbox.hostname}`,
    ...(spec.tty ? ["TERM=xterm"] : []),
  ];
  return [...added.filter((entry) => !names.has(entry.split("=", 1)[0])), ...spec.env];
}

function namespaces(spec: ContainerSpec): OciSpec["linux"]["namespaces"] {
  const { sandbox } = spec;
  return [
    { type: "mount" },
    // Also for privileged containers, to which containerd gives the machine's. In that one, the containers of a Docker daemon in
    // the pod would be outside of the pod's cgroup and its limits, and could take the agent's memory.
    { type: "cgroup" },
    ...(sandbox.userNamespace ? [{ type: "user", path: sandbox.userNamespace.file }] : []),
    defined({ type: "pid", path: sandbox.pidNamespace }),
    { type: "ipc", path: sandbox.ipcNamespace },
    // An absent entry means the machine's own namespace.
    ...(sandbox.utsNamespace === undefined ? [] : [{ type: "uts", path: sandbox.utsNamespace }]),
    ...(sandbox.networkNamespace === undefined
      ? []
      : [{ type: "network", path: sandbox.networkNamespace }]),
  ];
}

function idMappings(
  users: UserNamespace | undefined,
): Pick<OciLinux, "uidMappings" | "gidMappings"> {
  if (!users) return {};
  const mappings = [{ containerID: 0, hostID: users.firstId, size: users.idCount }];
  return { uidMappings: mappings, gidMappings: mappings };
}

function mounts(spec: ContainerSpec, privileged: boolean): readonly OciMount[] {
  const own = new Set(spec.mounts.map((mount) => mount.destination));
  return [
    ...standardMounts(spec, privileged ? "rw" : "ro").filter(
      ({ destination }) => !own.has(destination),
    ),
    // A parent must be mounted before its children.
    ...spec.mounts.map(ociMount).sort((a, b) => depth(a.destination) - depth(b.destination)),
  ];
}

/** Mounts of every container, unless it has another mount there. */
function standardMounts({ sandbox }: ContainerSpec, access: "ro" | "rw"): readonly OciMount[] {
  return [
    { destination: "/proc", type: "proc", source: "proc", options: ["nosuid", "noexec", "nodev"] },
    {
      destination: "/dev",
      type: "tmpfs",
      source: "tmpfs",
      options: ["nosuid", "strictatime", "mode=755", "size=65536k"],
    },
    {
      destination: "/dev/pts",
      type: "devpts",
      source: "devpts",
      options: ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
    },
    {
      destination: "/dev/mqueue",
      type: "mqueue",
      source: "mqueue",
      options: ["nosuid", "noexec", "nodev"],
    },
    sharedMemory(sandbox.sharedMemoryDir),
    {
      destination: "/sys",
      type: "sysfs",
      source: "sysfs",
      options: ["nosuid", "noexec", "nodev", access],
    },
    {
      destination: "/sys/fs/cgroup",
      type: "cgroup",
      source: "cgroup",
      options: ["nosuid", "noexec", "nodev", "relatime", access],
    },
  ];
}

/** The pod's shared memory, or the container's own if the pod has none. */
function sharedMemory(source: string | undefined): OciMount {
  const destination = "/dev/shm";
  const options = ["nosuid", "noexec", "nodev"];
  return source === undefined
    ? {
        destination,
        type: "tmpfs",
        source: "shm",
        options: [...options, "mode=1777", "size=65536k"],
      }
    : { destination, type: "bind", source, options: ["rbind", ...options] };
}

function ociMount(mount: ContainerMount): OciMount {
  const access = mount.readOnly ? "ro" : "rw";
  const options = mount.options ?? [];
  if (mount.type === "tmpfs") {
    return {
      destination: mount.destination,
      type: "tmpfs",
      source: "tmpfs",
      options: ["nosuid", "nodev", access, ...options],
    };
  }
  const propagated = options.some((option) => /^r?(private|slave|shared)$/.test(option));
  return {
    destination: mount.destination,
    type: "bind",
    source: mount.source,
    options: ["rbind", ...(propagated ? [] : ["rprivate"]), access, ...options],
  };
}

function depth(path: string): number {
  return path.split("/").filter((part) => part !== "").length;
}

/** The same limits that a later resize of a running container writes. */
function limits(resources: ContainerResources): Omit<OciSpec["linux"]["resources"], "devices"> {
  const { cpuMilliLimit = 0, cpuMilliRequest, memoryBytesLimit = 0 } = resources;
  return defined({
    cpu:
      cpuMilliLimit > 0
        ? { quota: cpuQuota(cpuMilliLimit), period: cpuPeriodMicroseconds }
        : undefined,
    memory: memoryBytesLimit > 0 ? { limit: memoryBytesLimit } : undefined,
    unified: defined({
      // Without some of its processes a container may be broken, so the kernel kills all of them together, also if the whole
      // machine is out of memory. Kubelets set the same.
      "memory.oom.group": "1",
      "cpu.weight": cpuMilliRequest === undefined ? undefined : String(cpuWeight(cpuMilliRequest)),
      ...hugePageFiles(resources),
    }),
  });
}
