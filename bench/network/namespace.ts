import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { runCommand } from "@kip/base";

/** setpriv arguments for a program that ends with this process, however this process ends. */
export const untilDeath = ["--pdeathsig", "KILL"] as const;

/** A network namespace, with a program in it that reports. */
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

  /** Command prefix that runs a program in the namespace. */
  get prefix(): readonly string[] {
    return ["nsenter", "--target", String(this.#holder.pid), "--net"];
  }

  async run(program: string, args: readonly string[], input?: string): Promise<string> {
    const [first = "", ...words] = [...this.prefix, program, ...args];
    return (await runCommand(first, words, { input })).stdout;
  }

  /**
   * Runs a program until the namespace is disposed of. {@link Namespace.seen} waits for its lines.
   *
   * @returns false if it prints no line within the limit
   */
  async watch(program: readonly string[], limitMs: number): Promise<boolean> {
    const [first = "", ...words] = [...this.prefix, "setpriv", ...untilDeath, ...program];
    this.#monitor = spawn(first, words, { stdio: ["ignore", "pipe", "inherit"] });
    const output = this.#monitor.stdout;
    if (!output) throw new TypeError("A child without output");
    const firstLine = this.seen("", limitMs);
    createInterface({ input: output }).on("line", (line) => {
      for (const watcher of this.#watchers) watcher(line);
    });
    return (await firstLine) !== undefined;
  }

  /**
   * Resolves with the time (`performance.now()`) at which the program prints a line with this text. Undefined after the limit.
   */
  async seen(text: string, limitMs: number): Promise<number | undefined> {
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
   * Polls until the rules contain a text.
   *
   * @param what the part of the rules that nft lists; listing all of a large table takes minutes
   * @returns false if the signal aborts first
   */
  async has(text: string, what: readonly string[], signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      // At first there is nothing to list.
      const rules = await this.run("nft", ["list", ...what]).catch(() => "");
      if (rules.includes(text)) return true;
      await sleep(500); // before the measurement
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
