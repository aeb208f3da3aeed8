// Sends requests at a steady rate. It runs in the test's process, and in a pod on the cell's Node, which gets this text. So it
// must not import modules of this repository.
import http from "node:http";
import type { Socket } from "node:net";

/** The result of the requests. */
export interface LoadResult {
  readonly answered: number;
  /** Requests without a complete response of status 200, by the first words of the reason. */
  readonly failures: readonly string[];
  /**
   * Requests that were repeated on a new connection, as HTTP allows, because their kept connection ended before any byte of a
   * response.
   */
  readonly repeated: number;
  /** Requests that were not sent because too many were open. */
  readonly skipped: number;
  /** Longest time of a request, milliseconds. */
  readonly slowest: number;
  /** Number of responses by text. */
  readonly answers: Readonly<Record<string, number>>;
}

/** Time limit of a request, milliseconds. Emulated machines may start at the same time. */
const requestTimeoutMs = 15_000;

/**
 * Maximum number of open requests, for each rate. An emulated machine that cannot keep up would open connections without
 * sending on them, and its server would wait for the requests indefinitely.
 */
const mostOpen = 10;

/**
 * Sends requests until it is stopped.
 *
 * @param perSecond requests per second on new connections
 * @param keptPerSecond requests per second on one kept connection, one after the other
 * @returns `answered` resolves with the first response
 */
export function startLoad(
  url: string,
  { perSecond, keptPerSecond }: { readonly perSecond: number; readonly keptPerSecond: number },
): { readonly answered: Promise<void>; stop(): Promise<LoadResult> } {
  const first = Promise.withResolvers<void>();
  const result = {
    answered: 0,
    repeated: 0,
    skipped: 0,
    slowest: 0,
    failures: [] as string[],
    answers: {} as Record<string, number>,
  };
  const kept = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const running = new Set<Promise<void>>();
  const send = (agent: http.Agent | false): void => {
    if (running.size >= mostOpen) {
      result.skipped += 1;
      return;
    }
    const begun = performance.now();
    const asked: Promise<void> = ask(url, agent, () => (result.repeated += 1)).then(
      (text) => {
        result.answered += 1;
        first.resolve();
        result.answers[text] = (result.answers[text] ?? 0) + 1;
        result.slowest = Math.max(result.slowest, Math.round(performance.now() - begun));
      },
      (error: unknown) => {
        const after = Math.round(performance.now() - begun);
        result.failures.push(`${new Date().toISOString()} after ${after} ms: ${String(error)}`);
      },
    );
    running.add(asked);
    void asked.finally(() => running.delete(asked));
  };
  const stops = [atRate(perSecond, () => send(false)), atRate(keptPerSecond, () => send(kept))];
  return {
    answered: first.promise,
    stop: async () => {
      for (const stop of stops) stop();
      await Promise.all(running);
      kept.destroy();
      return result;
    },
  };
}

/** Calls a function at this rate per second. If a timer is late, makes up for the missed calls. */
function atRate(perSecond: number, call: () => void): () => void {
  if (perSecond === 0) return () => {};
  const begun = performance.now();
  let calls = 0;
  const timer = setInterval(() => {
    for (; calls < ((performance.now() - begun) * perSecond) / 1000; calls += 1) call();
  }, 1000 / perSecond);
  return () => clearInterval(timer);
}

/** Connections that have served a request. Node does not report that for a connection that it passes to a waiting request. */
const used = new WeakSet<Socket>();

/** @param onRepeat called before the request is sent again */
async function ask(url: string, agent: http.Agent | false, onRepeat: () => void): Promise<string> {
  return await new Promise((resolve, reject) => {
    let isReused = false;
    let bytesBefore = 0;
    const request = http.get(url, { agent, timeout: requestTimeoutMs }, (answer) => {
      used.add(answer.socket);
      let text = "";
      answer.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      answer.on("error", reject);
      answer.on("end", () => {
        if (answer.statusCode === 200) resolve(text.trim());
        else reject(new Error(`status ${answer.statusCode}`));
      });
    });
    request.on("socket", (socket) => {
      isReused = used.has(socket);
      bytesBefore = socket.bytesRead;
    });
    request.on("timeout", () => request.destroy(new Error("no answer in time")));
    request.on("error", (error: NodeJS.ErrnoException) => {
      const isEnded = error.code === "ECONNRESET" || error.code === "EPIPE";
      if (!isEnded || !isReused || request.socket?.bytesRead !== bytesBefore) return reject(error);
      onRepeat();
      ask(url, false, onRepeat).then(resolve, reject);
    });
  });
}

const { LOAD_URL, LOAD_PER_SECOND = "50", LOAD_KEPT_PER_SECOND = "5" } = process.env;
if (LOAD_URL !== undefined) {
  const load = startLoad(LOAD_URL, {
    perSecond: Number(LOAD_PER_SECOND),
    keptPerSecond: Number(LOAD_KEPT_PER_SECOND),
  });
  void load.answered.then(() => console.error("The first request is answered"));
  // Stop at the end of the input.
  process.stdin.resume().on("end", () => {
    void load.stop().then((result) => console.log(JSON.stringify(result)));
  });
}
