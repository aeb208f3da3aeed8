import { decode, type Decoded } from "@kip/base";

const { integer, map, number, object, optional, string } = decode;

/** Decodes the response to `GET /v1/info`. */
export const decodeAgentInfo = object({
  cellName: string,
  agentVersion: string,
  apiVersion: string,
  kernelVersion: string,
  osImage: string,
  runtimeVersion: string,
  /** Boot ID of the kernel. Changes with every boot. */
  bootId: string,
  /** Milliseconds from the kernel's start to `userspace`, `network` and `listening`. */
  bootTimingsMs: map(number, { max: 20 }),
  /** UID of the cell's pod, if it has one. */
  podUid: optional(string),
  /** The newest generation of that pod that the agent has. Agents of earlier versions do not report it. */
  podGeneration: optional(integer),
});
export type AgentInfo = Decoded<typeof decodeAgentInfo>;

/** Decodes the body of `PUT /v1/identity`, which is also the file `identity.json` in the cell's user data. */
export const decodeCellIdentity = object({
  cellName: string,
  /** PEM: the CA that signs kip's client certificate. */
  ca: string,
  /** PEM: this cell's certificate and key. */
  certificate: string,
  key: string,
});
export type CellIdentity = Decoded<typeof decodeCellIdentity>;
