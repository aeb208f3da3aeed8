import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { runCommand } from "@kip/base";

/** Arguments of setpriv for a program that ends with this process, however that ends. */
export const untilDeath = ["--pdeathsig", "KILL"] as const;

/** A network namespace, and what nft reports of its rules. */
export class Namespace implements AsyncDisposable {
  readonly #holder: ChildProcess;
  readonly #watchers = new Set<(line: string) => void>();
  #monitor: ChildProcess | undefined;

  private constructor(holder: ChildProcess) {
    this.#holder = holder;
  }

  static async open(): Promise<Namespace> {
    const holder = spawn("setpriv", [...untilDeath, "unshare", "--net", "sleep", "infinity"], {
      stdio: "ignore",
    });
    await once(holder, "spawn");
    const namespace = new Namespace(holder);
    const own = `[ "$(readlink /proc/${holder.pid}/ns/net)" != "$(readlink /proc/self/ns/net)" ]`;
    await runCommand("sh", ["-c", `until ${own}; do :; done`]);
    await namespace.run("ip", ["link", "set", "lo", "up"]);
    return namespace;
  }

  /** Words before a program that runs it in the namespace. */
  get prefix(): readonly string[] {
    return ["nsenter", "--target", String(this.#holder.pid), "--net"];
  }

  async run(program: string, args: readonly string[], input?: string): Promise<string> {
    const [first = "", ...words] = [...this.prefix, program, ...args];
    return (await runCommand(first, words, { input })).stdout;
  }

  /**
   * Listens to what the kernel reports of each transaction, when it is in force. Resolves once nft does: it reads all rules before, and says
   * nothing when it has.
   *
   * @returns false if it does not within the limit
   */
  async watch(limitMs: number): Promise<boolean> {
    const [first, ...words] = [...this.prefix, "setpriv", ...untilDeath, "nft", "monitor"];
    this.#monitor = spawn(first, words, { stdio: ["ignore", "pipe", "ignore"] });
    const output = this.#monitor.stdout;
    if (!output) throw new TypeError("A child without output");
    createInterface({ input: output }).on("line", (line) => {
      for (const watcher of this.#watchers) watcher(line);
    });
    const ready = new AbortController();
    const seen = this.seen("bench_ready", limitMs).finally(() => ready.abort());
    while (!ready.signal.aborted) {
      await this.run("nft", ["add table ip bench_ready; delete table ip bench_ready"]);
      await sleep(200);
    }
    return (await seen) !== undefined;
  }

  /** Resolves with the time (`performance.now()`) at which a text appears in what nft reports; undefined after a minute. */
  async seen(text: string, limitMs = 60_000): Promise<number | undefined> {
    const { promise, resolve } = Promise.withResolvers<number | undefined>();
    const watcher = (line: string): void => {
      if (line.includes(text)) resolve(performance.now());
    };
    this.#watchers.add(watcher);
    const timer = setTimeout(() => resolve(undefined), limitMs);
    return await promise.finally(() => {
      clearTimeout(timer);
      this.#watchers.delete(watcher);
    });
  }

  /**
   * Waits until a text is in the rules.
   *
   * @param what of the rules nft lists: of a large table it takes minutes to list all
   * @returns false if the signal aborts before
   */
  async has(text: string, what: readonly string[], signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      // There is nothing to list yet at first.
      const rules = await this.run("nft", ["list", ...what]).catch(() => "");
      if (rules.includes(text)) return true;
      await sleep(500); // before the measurement; nft reports to nothing yet
    }
    return false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of [this.#monitor, this.#holder]) {
      if (!child) continue;
      child.kill("SIGKILL");
      await once(child, "exit");
    }
  }
}
