/**
 * The contract between kip and the agent, version 1: HTTP/2 over mutual TLS on TCP 6421.
 *
 * The agent's certificate has exactly one DNS name, `<cell name>.cell.kip`; kip checks it on every
 * connection. Kip's client certificate has the common name `kip`. Both come from kip's CA.
 *
 * | method, path | body → answer | legal when |
 * | --- | --- | --- |
 * | GET /v1/info | → {@link AgentInfo} | always |
 * | PUT /v1/pod | {@link DesiredPod} → 202, `{"generation": N}` as the agent has it now | no pod yet, or the same pod UID with a higher generation; another UID is 409 |
 * | DELETE /v1/pod?graceSeconds=N | → 202; containers are stopped, hooks run; progress is in the reports | a pod is there, else 404; N may only shrink |
 * | GET /v1/status | → `application/x-ndjson`, one {@link PodReport} a line, the current one first | always; lines begin once a pod is there; a blank line every minute |
 * | GET /v1/logs/{container}?follow&tailLines&tailBytes&sinceTime&limitBytes&timestamps&previous | → text | container has started, else 404 |
 * | POST /v1/exec/{container}?command=..&command=..&stdin&stdout&stderr&tty | framed duplex, see framing.ts; with `commandFrames` instead of `command` its first frames are the command | container runs, else 409 |
 * | POST /v1/attach/{container}?stdin&stdout&stderr&tty | framed duplex | container runs, else 409 |
 * | POST /v1/portforward?port=N | raw duplex: request body to the port, answer from it | pod runs, else 409 |
 * | POST /v1/network | lines of `network-view` → `{"sums": [..]}` of the Services that the agent has, then `{"applied": N}` when change N is in force; the next change comes after that, see network-stream.ts | always; a newer call ends the one before |
 * | GET /v1/stats | → {@link AgentStats} | always |
 * | PUT /v1/identity | {@link CellIdentity} → 204, used for new connections | always |
 *
 * Booleans in queries are "1" or absent. Errors: status 4xx/5xx with
 * `{"code": "AGENT_...", "message": "...", "retryable": false}`.
 */
export const agentPort = 6421;

/**
 * Maximum size of a request body, bytes of JSON. `PUT /v1/pod` contains ConfigMaps and Secrets in base64, so these may have
 * three quarters of it. A body of this size used some 50 MiB of the agent's memory.
 */
export const maxBodyBytes = 8 * 1024 * 1024;

/**
 * `maxSessionMemory` of both sides, in units of 1,000,000 bytes: no limit. Node counts the unsent bytes of a closed stream until the
 * connection ends, and refuses all new requests when the sum exceeds the limit. Other things bound the memory: windows, the number of
 * streams, and keep-alive, which ends a connection whose peer does not read.
 */
export const maxSessionMemory = 0xffff_ffff;

/** Version segment of every path. */
export const apiVersion = "v1";

/** The DNS name in a cell's certificate. */
export function cellServerName(cellName: string): string {
  return `${cellName}.cell.kip`;
}
