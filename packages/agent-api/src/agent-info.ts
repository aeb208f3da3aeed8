import { decode, type Decoded } from "@kip/base";
import { rfc3339 } from "./plain-text.ts";

const { between, integer, list, map, number, object, oneOf, optional, string } = decode;

/** Decodes the answer of `GET /v1/info`. */
export const decodeAgentInfo = object({
  cellName: string,
  agentVersion: string,
  apiVersion: string,
  kernelVersion: string,
  osImage: string,
  runtimeVersion: string,
  /** Boot ID of the kernel: changes when the machine was restarted. */
  bootId: string,
  /** Milliseconds from the kernel's start to: `userspace`, `network`, `listening`. */
  bootTimingsMs: map(number, { max: 20 }),
  /** UID of the pod that is here, if one is. */
  podUid: optional(string),
  /** The newest generation of that pod that the agent has; agents of earlier versions do not say. */
  podGeneration: optional(integer),
});
export type AgentInfo = Decoded<typeof decodeAgentInfo>;

/** Decodes the body of `PUT /v1/identity`, which is also the cell's `identity.json` in user data. */
export const decodeCellIdentity = object({
  cellName: string,
  /** PEM: the CA that signs kip's client certificate. */
  ca: string,
  /** PEM: this cell's certificate and key. */
  certificate: string,
  key: string,
});
export type CellIdentity = Decoded<typeof decodeCellIdentity>;

/** The most containers that statistics may be of. */
const maxContainers = 1000;

/** Figures beyond these are none of a machine: 31 years of one processor; 8 PiB. */
const nanoseconds = between(number, 0, 1e18);
const bytes = between(number, 0, 2 ** 53);
const count = between(integer, 0, Number.MAX_SAFE_INTEGER);

/** Decodes the answer of `GET /v1/stats`. */
export const decodeAgentStats = object({
  /** RFC 3339. */
  time: rfc3339,
  containers: map(
    object({
      cpuUsageNanoseconds: nanoseconds,
      memoryUsageBytes: bytes,
      memoryWorkingSetBytes: bytes,
    }),
    { max: maxContainers },
  ),
  /** How probes went since the agent has begun. @default none */
  probes: optional(
    list(
      object({
        container: string,
        kind: oneOf("Liveness", "Readiness", "Startup"),
        successful: count,
        failed: count,
      }),
      { max: 3 * maxContainers },
    ),
  ),
  agentRssBytes: integer,
  /** Processor time the agent itself has used, microseconds. */
  agentCpuMicroseconds: number,
});
export type AgentStats = Decoded<typeof decodeAgentStats>;
