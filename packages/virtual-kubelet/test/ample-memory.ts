import { StreamMemory, type ConnectionMemory } from "../src/kubelet-api/transport/stream-memory.ts";

/** Memory of a connection that reaches no limit, for tests of something else. */
export function ampleMemory(): ConnectionMemory {
  const bytes = 1024 * 1024 * 1024;
  return new StreamMemory({
    connectionBytes: bytes,
    allBytes: 8 * bytes,
    allStreams: 1e6,
  }).connection();
}
