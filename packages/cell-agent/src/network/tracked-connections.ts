import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import path from "node:path";

/** Number of connections that kube-proxy makes a node track, at least and per core. */
const least = 128 * 1024;
const ofCore = 32 * 1024;

/**
 * Kernel memory per connection, bytes. The pod controls the number of connections, and its cgroup does not count their memory.
 */
const bytesOfConnection = 512;
/** The maximum part of the machine's memory for all connections. */
const partOfMemory = 1 / 16;

/** Maximum number of connections per bucket of their hash table. */
const ofBucket = 4;

/** How long a half-closed connection stays translated, seconds: an hour. The kernel's default is a minute. */
const halfClosedSeconds = 3600;

/** Options of {@link followConnections}. */
export interface FollowConnectionsOptions {
  /** @default the machine's */
  readonly memoryBytes?: number | undefined;
  /** @default the machine's */
  readonly cores?: number | undefined;
  /** Folder of the kernel's settings. @default "/proc/sys/net/netfilter" */
  readonly folder?: string | undefined;
}

/**
 * Makes the kernel track as many connections as on a node with kube-proxy, and half-closed ones for as long. By default a
 * machine with 1 GiB tracks 8,192, and drops the packets of others. A packet that is ahead of its window is translated like any
 * other packet of its connection. Otherwise the client would get it from an endpoint that it does not know, and its reset would
 * end the connection. Settings are only raised, never lowered. They exist once rules are in force.
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
