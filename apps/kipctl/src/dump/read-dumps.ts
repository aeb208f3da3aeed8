import { decode, errorText } from "@kip/base";
import { K8sError, paths, type ApiClient } from "@kip/k8s-client";
import { KipctlError } from "../errors.ts";
import { listKipNodes } from "../cluster/kip-nodes.ts";

const { boolean, integer, list, number, object, optional, string } = decode;

const decodeWorker = object({
  pod: optional(object({ namespace: string, name: string, uid: string })),
  wanted: string,
  cell: optional(string),
  phase: optional(string),
  instance: optional(string),
  machine: optional(string),
  isAgentConnected: boolean,
  attempt: integer,
  waitsFor: optional(string),
  steps: list(
    object({
      kind: string,
      lane: string,
      status: string,
      failures: integer,
      inMs: optional(number),
    }),
  ),
  wakeInMs: optional(number),
});
const decodeDump = object({
  node: string,
  time: string,
  admitted: list(string),
  pods: list(decodeWorker),
  standby: list(decodeWorker),
  launches: list(object({ of: string, waiting: integer, delayMs: number, inMs: number })),
});

/** What the kip of a node is doing. Kip serves this at `/logs/kip/dump.json` of its kubelet API. */
export type NodeDump = decode.Decoded<typeof decodeDump>;
/** What kip is doing for one cell. */
export type DumpedWorker = decode.Decoded<typeof decodeWorker>;

/**
 * Reads the dumps of all kip nodes. Notes those that do not respond.
 *
 * @throws {KipctlError} `NO_KIP_NODE` if there are no nodes, or none responds
 */
export async function readDumps(
  client: ApiClient,
  options: {
    /** Undefined: all nodes. */
    readonly node: string | undefined;
    readonly signal: AbortSignal;
    readonly note: (line: string) => void;
  },
): Promise<readonly NodeDump[]> {
  const { node, signal, note } = options;
  const nodes = node === undefined ? await listKipNodes(client, signal) : [node];
  const failures: unknown[] = [];
  const reads = nodes.map(async (each) => {
    try {
      const path = paths.nodes(each, "proxy/logs/kip/dump.json");
      return [decodeDump(await client.get<unknown>(path, { signal }), "")];
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
      note(`Node ${each} does not say what it does: ${reasonOf(error)}`);
      return [];
    }
  });
  const dumps = (await Promise.all(reads)).flat();
  if (dumps.length > 0) return dumps;
  throw new KipctlError("NO_KIP_NODE", "Cannot dump a node: no node of kip answers", {
    cause: failures[0],
    remedy: "It needs kip to run, and the right to get nodes/proxy",
  });
}

function reasonOf(error: unknown): string {
  const isOld = K8sError.is(error) && (error.httpStatus === 404 || error.httpStatus === 405);
  return isOld ? "its kip is too old, or the node is none of kip's" : errorText(error);
}
