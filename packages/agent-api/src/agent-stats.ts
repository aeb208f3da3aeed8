import { decode, type Decoded, type Decoder } from "@kip/base";
import { rfc3339 } from "./plain-text.ts";

const { between, integer, list, map, number, object, oneOf, optional, string } = decode;

/** The most containers that statistics may be of, and the most volumes. */
const maxParts = 1000;
/** The most network interfaces, and the most block devices: more than 32 of a cell are not reported. */
export const maxInterfaces = 32;
/** Length of the name of an interface in Linux, and enough for a device's. */
const deviceName = /^[\w.:@-]{1,32}$/;

/** Figures beyond these are none of a machine: 31 years of one processor; 8 PiB. */
const nanoseconds = between(number, 0, 1e18);
const bytes = between(number, 0, 2 ** 53);
const count = between(integer, 0, Number.MAX_SAFE_INTEGER);
const percent = between(number, 0, 100);

const device: Decoder<string> = (value, path) => {
  const name = string(value, path);
  if (deviceName.test(name)) return name;
  throw decode.failure(path, "the name of a device", value);
};

const pressureShare = object({
  totalMicroseconds: count,
  avg10: percent,
  avg60: percent,
  avg300: percent,
});
const pressure = optional(object({ some: pressureShare, full: pressureShare }));

/** A cgroup's figures by the kernel; those that it does not have are absent, and limits that are not set. */
const usage = object({
  cpuUsageNanoseconds: nanoseconds,
  cpuUserNanoseconds: optional(nanoseconds),
  cpuSystemNanoseconds: optional(nanoseconds),
  cpuPeriods: optional(count),
  cpuThrottledPeriods: optional(count),
  cpuThrottledNanoseconds: optional(nanoseconds),
  cpuQuotaMicroseconds: optional(count),
  cpuPeriodMicroseconds: optional(count),
  memoryUsageBytes: bytes,
  memoryWorkingSetBytes: bytes,
  memoryLimitBytes: optional(bytes),
  memoryPeakBytes: optional(bytes),
  rssBytes: optional(bytes),
  cacheBytes: optional(bytes),
  mappedFileBytes: optional(bytes),
  kernelBytes: optional(bytes),
  activeFileBytes: optional(bytes),
  inactiveFileBytes: optional(bytes),
  pageFaults: optional(count),
  majorPageFaults: optional(count),
  swapBytes: optional(bytes),
  swapLimitBytes: optional(bytes),
  oomKills: optional(count),
  processes: optional(count),
  threads: optional(count),
  threadLimit: optional(count),
  cpuPressure: pressure,
  memoryPressure: pressure,
  ioPressure: pressure,
  devices: optional(
    list(object({ device, readBytes: bytes, writtenBytes: bytes, reads: count, writes: count }), {
      max: maxInterfaces,
    }),
  ),
});

const networkInterface = object({
  name: device,
  receivedBytes: bytes,
  receivedPackets: count,
  receivedErrors: count,
  receivedDropped: count,
  sentBytes: bytes,
  sentPackets: count,
  sentErrors: count,
  sentDropped: count,
});

/** Room on a file system. */
const room = {
  sizeBytes: bytes,
  freeBytes: bytes,
  inodes: count,
  freeInodes: count,
};

/** What files take, and how many there are, folders included. */
const files = object({ bytes, inodes: count });

/** What the disk watch has measured last; the agent measures nothing when it is asked. */
const disk = object({
  time: rfc3339,
  ...room,
  /** Volumes on file systems of their own, by name. */
  mounts: map(object(room), { max: maxParts }),
  /** The last walk through the pod's folders; absent before it. */
  walk: optional(
    object({
      time: rfc3339,
      /** All that the pod has on the disk. */
      pod: files,
      /** What containers have written beside volumes, and their logs. */
      containers: map(object({ files, logs: files }), { max: maxParts }),
      volumes: map(files, { max: maxParts }),
    }),
  ),
});

/** Decodes the answer of `GET /v1/stats`. All that an agent of an earlier version lacks is optional. */
export const decodeAgentStats = object({
  /** RFC 3339. */
  time: rfc3339,
  containers: map(usage, { max: maxParts }),
  /** All containers of the pod together. */
  pod: optional(usage),
  /** The pod's network interfaces but loopback. */
  interfaces: optional(list(networkInterface, { max: maxInterfaces })),
  disk: optional(disk),
  /** How probes went since the agent has begun. @default none */
  probes: optional(
    list(
      object({
        container: string,
        kind: oneOf("Liveness", "Readiness", "Startup"),
        successful: count,
        failed: count,
      }),
      { max: 3 * maxParts },
    ),
  ),
  agentRssBytes: integer,
  /** Processor time the agent itself has used, microseconds. */
  agentCpuMicroseconds: number,
});
export type AgentStats = Decoded<typeof decodeAgentStats>;
export type DiskStats = Decoded<typeof disk>;
export type InterfaceStats = Decoded<typeof networkInterface>;
