import { decode, type Decoded, type Decoder } from "@kip/base";
import { rfc3339 } from "./plain-text.ts";

const { between, integer, list, map, number, object, oneOf, optional, string } = decode;

/** Maximum number of containers, and of volumes, in the statistics. */
const maxParts = 1000;
/** Maximum number of network interfaces, and of block devices. A cell does not report more than 32. */
export const maxInterfaces = 32;
/** Maximum length of an interface's name in Linux. Enough for a device's name. */
const deviceName = /^[\w.:@-]{1,32}$/;

/** Limits that no machine reaches: 31 years of one CPU, 8 PiB. */
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

/** The kernel's figures of a cgroup. A figure that the kernel does not have is absent, and so is a limit that is not set. */
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

/** Space on a file system. */
const room = {
  sizeBytes: bytes,
  freeBytes: bytes,
  inodes: count,
  freeInodes: count,
};

/** Size and number of files, including folders. */
const files = object({ bytes, inodes: count });

/** The last measurements of the disk watch. The agent does not measure anything for this request. */
const disk = object({
  time: rfc3339,
  ...room,
  /** Volumes with their own file systems, by name. */
  mounts: map(object(room), { max: maxParts }),
  /** The last walk through the pod's folders. Absent before the first one. */
  walk: optional(
    object({
      time: rfc3339,
      /** All files of the pod on the disk. */
      pod: files,
      /** What containers wrote outside of volumes, and their logs. */
      containers: map(object({ files, logs: files }), { max: maxParts }),
      volumes: map(files, { max: maxParts }),
    }),
  ),
});

/** Decodes the response to `GET /v1/stats`. Fields that agents of earlier versions lack are optional. */
export const decodeAgentStats = object({
  /** RFC 3339. */
  time: rfc3339,
  containers: map(usage, { max: maxParts }),
  /** All containers of the pod together. */
  pod: optional(usage),
  /** The pod's network interfaces, except loopback. */
  interfaces: optional(list(networkInterface, { max: maxInterfaces })),
  disk: optional(disk),
  /** Results of probes since the agent's start. @default none */
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
  /** CPU time of the agent itself, microseconds. */
  agentCpuMicroseconds: number,
});
export type AgentStats = Decoded<typeof decodeAgentStats>;
export type DiskStats = Decoded<typeof disk>;
export type InterfaceStats = Decoded<typeof networkInterface>;
