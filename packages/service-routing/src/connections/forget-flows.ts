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

/** The size of a datagram to the kernel: a pipe passes on so many bytes in one piece, so that no message is cut. */
const pieceBytes = 4096;

/**
 * For at most so many ports, connections are listed port by port. For each list the kernel searches its whole table, in some milliseconds;
 * reading all connections here takes much longer if there are very many.
 */
const fewPorts = 8;

/** Options of {@link forgetFlows}. */
export interface ForgetFlowsOptions {
  /** A command that runs another one in the namespace of the rules, with its arguments. @default none */
  readonly inNamespace?: readonly string[] | undefined;
  /** How long the kernel may send nothing. A list takes as long as there are connections. @default 5000 */
  readonly timeoutMs?: number | undefined;
}

/**
 * Has the kernel forget connections. Node opens no netlink sockets; socat, which cells have for port-forward, does.
 *
 * @returns how many there were
 * @throws {CommandError} `COMMAND_FAILED`; a repetition is safe
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
  child.stdin.on("error", () => {}); // the answers end, too
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
      // A result may be an error, as a flow may have ended meanwhile. That does not matter.
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

/** Both, unless all are of one: a flow without an address is of both. */
function familiesOf(stale: readonly StaleFlows[]): readonly IpFamily[] {
  return ([4, 6] as const).filter((family) => stale.some((flows) => isOfFamily(flows, family)));
}

/** Lists that have all connections of a family that are to be forgotten. */
function listsOf(stale: readonly StaleFlows[], family: IpFamily): readonly FlowFilter[] {
  const ports = new Set(stale.filter((flows) => isOfFamily(flows, family)).map(({ port }) => port));
  return ports.size > fewPorts ? ["udp"] : [...ports].map((port) => ({ port }));
}

/** Has connections listed. A kernel that refuses one of the lists is asked for all. */
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

/** Reads one list. @returns the number of the error if the kernel refuses it or cannot complete it, otherwise 0 */
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

/** The next message at each call. @param onBytes called when some have come */
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
