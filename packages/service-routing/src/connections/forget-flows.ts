import type { Readable } from "node:stream";
import { CommandError } from "@kip/base";
import type { IpFamily } from "@kip/network-view";
import {
  deleteRequest,
  listRequest,
  readAnswers,
  type Answer,
  type Flow,
  type FlowFilter,
} from "./conntrack-messages.ts";
import type { StaleFlows } from "./stale-flows.ts";
import { StaleList } from "./stale-list.ts";

/** Maximum size of a datagram to the kernel. A pipe passes on this many bytes in one piece, so no message is split. */
const pieceBytes = 4096;

/**
 * Maximum number of ports for which connections are listed port by port. For each list the kernel searches its whole table, which takes some
 * milliseconds. To read all connections in this process takes much longer, if there are very many.
 */
const fewPorts = 8;

/** Options of {@link forgetFlows}. */
export interface ForgetFlowsOptions {
  /** A command, with arguments, that runs another command in the network namespace of the rules. @default none */
  readonly inNamespace?: readonly string[] | undefined;
  /** Time limit for each message of the kernel. The total time grows with the number of connections. @default 5000 */
  readonly timeoutMs?: number | undefined;
}

/**
 * Deletes connections from the kernel's table. Uses socat, which cells have for port-forward, because Node cannot open netlink sockets.
 *
 * @returns the number of deleted connections
 * @throws {CommandError} `COMMAND_FAILED`. It is safe to repeat the call
 */
export async function forgetFlows(
  stale: readonly StaleFlows[],
  { inNamespace = [], timeoutMs = 5000 }: ForgetFlowsOptions = {},
): Promise<number> {
  const { spawn } = process.getBuiltinModule("node:child_process");
  // Address family 16 is netlink, type 3 a raw socket, protocol 12 netfilter; the peer is the kernel.
  const socat = ["socat", "-b", "65536", "-", "SOCKET-SENDTO:16:3:12:x00000000000000000000"];
  const [program = "", ...words] = [...inNamespace, ...socat];
  const child = spawn(program, words, {
    stdio: ["pipe", "pipe", "ignore"],
  });
  const limit = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
  const ended = new Promise((resolve) => child.once("close", resolve).once("error", resolve));
  child.stdin.on("error", () => {}); // then the output also ends, which is handled below
  try {
    const answers = answersOf(child.stdout, () => limit.refresh());
    const flows: Flow[] = [];
    const list = new StaleList();
    list.add(stale);
    for (const family of familiesOf(stale)) {
      const read = async (which: FlowFilter): Promise<number> => {
        child.stdin.write(listRequest(family, which));
        return await readList(answers, (flow) => {
          if (list.has(flow)) flows.push(flow);
        });
      };
      await readAny(listsOf(stale, family), read);
    }
    for (const piece of pieces(flows.map(deleteRequest))) {
      child.stdin.write(piece.bytes);
      // Ignore errors in results, because a flow may have ended meanwhile.
      for (let left = piece.count; left > 0;) if ((await answers()).kind === "result") left -= 1;
    }
    return flows.length;
  } finally {
    clearTimeout(limit);
    child.kill("SIGKILL");
    await ended;
  }
}

function isOfFamily({ address }: StaleFlows, family: IpFamily): boolean {
  return address === undefined || address.includes(":") === (family === 6);
}

/** The IP families of stale flows. A flow without an address belongs to both. */
function familiesOf(stale: readonly StaleFlows[]): readonly IpFamily[] {
  return ([4, 6] as const).filter((family) => stale.some((flows) => isOfFamily(flows, family)));
}

/** The lists to request, so that they contain all stale connections of a family. */
function listsOf(stale: readonly StaleFlows[], family: IpFamily): readonly FlowFilter[] {
  const ports = new Set(stale.filter((flows) => isOfFamily(flows, family)).map(({ port }) => port));
  return ports.size > fewPorts ? ["udp"] : [...ports].map((port) => ({ port }));
}

/** Reads the lists. If the kernel rejects one of them, reads all connections. */
async function readAny(
  lists: readonly FlowFilter[],
  read: (which: FlowFilter) => Promise<number>,
): Promise<void> {
  let errno = 0;
  for (const which of lists) {
    errno = await read(which);
    if (errno !== 0) break;
  }
  if (errno !== 0) errno = await read("all");
  if (errno === 0) return;
  const reason = `the kernel lists none (error ${errno})`;
  throw new CommandError("COMMAND_FAILED", `Cannot end stale connections: ${reason}`);
}

/** Reads one list. @returns the errno if the kernel rejects it or cannot complete it, otherwise 0 */
async function readList(
  answers: () => Promise<Answer>,
  onFlow: (flow: Flow) => void,
): Promise<number> {
  for (;;) {
    const answer = await answers();
    if (answer.kind === "flow") onFlow(answer.flow);
    else return answer.errno;
  }
}

/** A function that returns the next message at each call. @param onBytes called when data has arrived */
function answersOf(output: Readable, onBytes: () => void): () => Promise<Answer> {
  const chunks = output[Symbol.asyncIterator]() as AsyncIterator<Buffer>; // no encoding is set
  const waiting: Answer[] = [];
  let rest: Buffer = Buffer.alloc(0);
  return async () => {
    for (;;) {
      const answer = waiting.shift();
      if (answer) return answer;
      const { value, done } = await chunks.next();
      if (done === true) {
        const reason = "socat ended before the kernel had answered";
        throw new CommandError("COMMAND_FAILED", `Cannot end stale connections: ${reason}`);
      }
      onBytes();
      const read = readAnswers(Buffer.concat([rest, value]));
      waiting.push(...read.answers);
      rest = read.rest;
    }
  };
}

function pieces(
  requests: readonly Buffer[],
): readonly { readonly bytes: Buffer; readonly count: number }[] {
  const result: { bytes: Buffer; count: number }[] = [];
  for (const request of requests) {
    const last = result.at(-1);
    if (last && last.bytes.length + request.length <= pieceBytes) {
      last.bytes = Buffer.concat([last.bytes, request]);
      last.count += 1;
    } else result.push({ bytes: request, count: 1 });
  }
  return result;
}
