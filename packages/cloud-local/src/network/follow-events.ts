import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { backoffDelay, errorText, type Clock, type Logger } from "@kip/base";

/** Options of {@link followEvents}. */
export interface FollowEventsOptions {
  /** File that names the network namespace. @default the one of this process */
  readonly namespaceFile?: string | undefined;
  /** Kinds of objects in the notation of `ip monitor`: "address", "link". */
  readonly objects: readonly string[];
  /** Whether to include IPv6 addresses and routes. @default false */
  readonly hasIpv6?: boolean | undefined;
  /** Called with each line of `ip -oneline monitor`. */
  readonly onLine: (line: string) => void;
  /** Called when events may have been missed: at each start, and when the kernel has dropped some. */
  readonly onGap: () => void;
  /** Whether to continue. Called before each start. */
  readonly isNeeded: () => Promise<boolean>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Delays before `ip monitor` is started again, milliseconds. */
const backoff = { initialMs: 200, maxMs: 30_000 } as const;
/** If `ip monitor` ran for longer than this, it did not fail to start, milliseconds. */
const soonMs = 60_000;
/** How long it may take to start listening, milliseconds. */
const listenLimitMs = 5000;

/**
 * Follows the kernel's network events with `ip monitor`, and restarts it when it ends, until the signal aborts or it is no
 * longer needed. It ends with this process, however that ends. Never rejects.
 *
 * @see ip-monitor(8)
 */
export async function followEvents(options: FollowEventsOptions): Promise<void> {
  const { clock, logger, signal, objects } = options;
  try {
    for (let attempt = 0; !signal.aborted && (await options.isNeeded()); attempt++) {
      const started = clock.monotonic();
      const how = await runOnce(options).catch((error: unknown) => errorText(error));
      if (signal.aborted) return;
      if (clock.monotonic() - started > soonMs) attempt = 0;
      logger.debug("Process ended and is started again", { process: "ip monitor", objects, how });
      await clock.sleep(backoffDelay(attempt, backoff), signal);
    }
  } catch (error) {
    if (!signal.aborted)
      logger.error("Could not follow network events", { objects, err: errorText(error) });
  }
}

/** Resolves with the reason when `ip monitor` has ended. */
async function runOnce(options: FollowEventsOptions): Promise<string> {
  const { namespaceFile, objects, hasIpv6 = false, onLine, onGap, signal } = options;
  const inside = namespaceFile === undefined ? [] : ["nsenter", `--net=${namespaceFile}`];
  const family = hasIpv6 ? [] : ["-4"];
  const command = [...inside, "ip", "-oneline", ...family, "monitor", ...objects];
  const child = spawn("setpriv", ["--pdeathsig", "KILL", ...command], {
    stdio: ["ignore", "pipe", "pipe"],
    signal,
    killSignal: "SIGKILL",
  });
  child.on("error", () => {}); // "close" follows
  // Watching alone must not keep this process alive.
  child.unref();
  for (const stream of [child.stdout, child.stderr])
    if ("unref" in stream && typeof stream.unref === "function") stream.unref();
  createInterface(child.stdout).on("line", onLine);
  child.stderr.on("data", onGap); // "No buffer space available": the kernel has dropped events
  const closed = once(child, "close");
  closed.catch(() => {}); // awaited below
  if (child.pid !== undefined) await untilListening(child.pid, options, closed);
  onGap();
  const [code, killedBy] = (await closed) as [number | null, string | null]; // as Node documents it
  return killedBy ?? `exit code ${code}`;
}

/** `ip monitor` prints nothing when it starts listening, but the kernel lists its socket with its multicast groups. */
async function untilListening(
  pid: number,
  { clock, signal }: FollowEventsOptions,
  closed: Promise<unknown>,
): Promise<void> {
  const until = clock.monotonic() + listenLimitMs;
  const ended = new AbortController();
  const onClose = (): void => ended.abort();
  closed.then(onClose, onClose);
  while (!ended.signal.aborted && clock.monotonic() < until) {
    const sockets = await readFile(`/proc/${pid}/net/netlink`, "utf8").catch(() => "");
    const isListening = sockets.split("\n").some((line) => {
      const [, , port, groups] = line.trim().split(/\s+/);
      return Number(port) === pid && Number.parseInt(groups ?? "", 16) > 0;
    });
    if (isListening) return;
    await clock.sleep(10, signal);
  }
}
