import { decode, type Decoded } from "@kip/base";

const { integer, map, number, object, optional, string } = decode;

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
