import type { Readable } from "node:stream";
import { CommandError } from "@kip/base";
import type { IpFamily } from "@kip/network-view";
import {
  deleteRequest,
  listRequest,
  readAnswers,
  type Answer,
  type Flow,
} from "./conntrack-messages.ts";
import type { StaleFlows } from "./stale-flows.ts";
import { StaleList } from "./stale-list.ts";

/** A pipe hands on this many bytes as one piece, and a piece is one datagram: no message is cut. */
const pieceBytes = 4096;

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
      const ask = (which: "udp" | "all"): unknown => child.stdin.write(listRequest(family, which));
      await readList(ask, answers, (flow) => {
        if (list.has(flow)) flows.push(flow);
      });
    }
    for (const piece of pieces(flows.map(deleteRequest))) {
      child.stdin.write(piece.bytes);
      // One that has ended meanwhile has no effect, so results are counted only.
      for (let left = piece.count; left > 0;) if ((await answers()).kind === "result") left -= 1;
    }
    return flows.length;
  } finally {
    clearTimeout(limit);
    child.kill("SIGKILL");
    await ended;
  }
}

/** Both, unless all are of one: a flow without an address is of both. */
function familiesOf(stale: readonly StaleFlows[]): readonly IpFamily[] {
  const isWanted = (isIpv6: boolean): boolean =>
    stale.some(({ address }) => address === undefined || address.includes(":") === isIpv6);
  return [...(isWanted(false) ? [4 as const] : []), ...(isWanted(true) ? [6 as const] : [])];
}

/** Has connections listed. A kernel that refuses to list those of UDP alone is asked for all. */
async function readList(
  ask: (which: "udp" | "all") => unknown,
  answers: () => Promise<Answer>,
  onFlow: (flow: Flow) => void,
): Promise<void> {
  let errno = 0;
  for (const which of ["udp", "all"] as const) {
    ask(which);
    let answer = await answers();
    for (; answer.kind === "flow"; answer = await answers()) onFlow(answer.flow);
    if (answer.kind === "done") return;
    errno = answer.errno;
  }
  const reason = `the kernel lists none (error ${errno})`;
  throw new CommandError("COMMAND_FAILED", `Cannot end stale connections: ${reason}`);
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
