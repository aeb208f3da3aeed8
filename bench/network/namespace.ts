import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
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

  /** Begins to listen to what the kernel reports of each transaction, when it is in force. */
  watch(): void {
    const [first, ...words] = [...this.prefix, "setpriv", ...untilDeath, "nft", "monitor"];
    this.#monitor = spawn(first, words, { stdio: ["ignore", "pipe", "ignore"] });
    const output = this.#monitor.stdout;
    if (!output) throw new TypeError("A child without output");
    createInterface({ input: output }).on("line", (line) => {
      for (const watcher of this.#watchers) watcher(line);
    });
  }

  /** Resolves with the time (`performance.now()`) at which a text appears in what nft reports; undefined after a minute. */
  async seen(text: string): Promise<number | undefined> {
    const { promise, resolve } = Promise.withResolvers<number | undefined>();
    const watcher = (line: string): void => {
      if (line.includes(text)) resolve(performance.now());
    };
    this.#watchers.add(watcher);
    const timer = setTimeout(() => resolve(undefined), 60_000);
    return await promise.finally(() => {
      clearTimeout(timer);
      this.#watchers.delete(watcher);
    });
  }

  /** Resolves once a text is in the rules. */
  async has(text: string): Promise<void> {
    for (;;) {
      if ((await this.run("nft", ["list", "ruleset"])).includes(text)) return;
      await new Promise((resolve) => setTimeout(resolve, 500)); // before the measurement; nft reports to nothing yet
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of [this.#monitor, this.#holder]) {
      if (!child) continue;
      child.kill("SIGKILL");
      await once(child, "exit");
    }
  }
}
