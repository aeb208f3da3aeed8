import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import path from "node:path";

/** How many connections kube-proxy has a node follow at least, and for each core. */
const least = 128 * 1024;
const ofCore = 32 * 1024;

/** What a connection may take in the kernel, bytes; the pod decides how many there are, and its cgroup does not count them. */
const bytesOfConnection = 512;
/** All of them together may take this part of the machine's memory. */
const partOfMemory = 1 / 16;

/** Connections for each bucket of the table that they are looked up in, at most. */
const ofBucket = 4;

/** For how long a connection stays translated whose one end was closed, seconds: an hour, where the kernel has a minute. */
const halfClosedSeconds = 3600;

/** Options of {@link followConnections}. */
export interface FollowConnectionsOptions {
  /** @default the machine's */
  readonly memoryBytes?: number | undefined;
  /** @default the machine's */
  readonly cores?: number | undefined;
  /** Where the kernel's settings are. @default "/proc/sys/net/netfilter" */
  readonly folder?: string | undefined;
}

/**
 * Has the kernel follow as many connections as on a node with kube-proxy, and half-closed ones as long. By itself a machine with 1 GiB follows
 * 8,192, and drops the packets of further ones. A packet that is ahead of its window is translated as all others of its connection: the
 * client would get it from an endpoint that it knows nothing of, and its reset would end the connection. Settings are raised, never
 * lowered; they are there once rules are in force.
 *
 * @throws if a setting cannot be read or written
 */
export function followConnections(options: FollowConnectionsOptions = {}): void {
  const { memoryBytes = totalmem(), cores = availableParallelism() } = options;
  const { folder = "/proc/sys/net/netfilter" } = options;
  const affordable = Math.floor((memoryBytes * partOfMemory) / bytesOfConnection);
  const most = Math.min(Math.max(least, ofCore * cores), affordable);
  const raise = (name: string, value: number): void => {
    const file = path.join(folder, `nf_conntrack_${name}`);
    if (Number(readFileSync(file, "utf8")) < value) writeFileSync(file, String(value));
  };
  raise("tcp_timeout_close_wait", halfClosedSeconds);
  raise("tcp_be_liberal", 1);
  raise("buckets", Math.floor(most / ofBucket));
  raise("max", most);
}
