import { spawn, type ChildProcess } from "node:child_process";
import path from "node:path";
import { createInterface } from "node:readline";
import { runCommand } from "@kip/base";
import type { PeerRequest } from "./peer.ts";

type Request = Omit<PeerRequest, "id">;

/** A process in a network namespace of its own. */
export class Peer implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (answer: { text?: string; error?: string }) => void>();
  #lastId = 0;

  constructor() {
    const program = path.join(import.meta.dirname, "peer.ts");
    this.#child = spawn("unshare", ["--net", process.execPath, program], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const output = this.#child.stdout;
    if (!output) throw new TypeError("A child without output");
    createInterface({ input: output }).on("line", (line) => {
      const answer = JSON.parse(line) as { id: number; text?: string; error?: string }; // peer.ts
      this.#waiting.get(answer.id)?.(answer);
    });
    this.#child.once("exit", () => {
      for (const answer of this.#waiting.values()) answer({ error: "the peer has ended" });
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Asks for something; the answer is text, or `error: CODE`. */
  async ask(request: Request): Promise<string> {
    return (await this.start(request)).text;
  }

  /** The same, with the number by which a held connection is known. */
  async start(request: Request): Promise<{ readonly id: number; readonly text: string }> {
    const id = ++this.#lastId;
    const { promise, resolve } = Promise.withResolvers<{ text?: string; error?: string }>();
    this.#waiting.set(id, resolve);
    this.#child.stdin?.write(`${JSON.stringify({ ...request, id })}\n`);
    const { text, error } = await promise;
    this.#waiting.delete(id);
    return { id, text: text ?? `error: ${error}` };
  }

  async tcp(host: string, port: number, timeoutMs = 10_000): Promise<string> {
    return await this.ask({ do: "tcp", host, port, timeoutMs });
  }

  async udp(host: string, port: number, localPort = 0, timeoutMs = 10_000): Promise<string> {
    return await this.ask({ do: "udp", host, port, localPort, timeoutMs });
  }

  async listen(host: string, port: number, protocol: "tcp" | "udp" = "tcp"): Promise<void> {
    const answer = await this.ask({ do: "listen", host, port, protocol });
    if (answer !== "ok") throw new Error(`Cannot listen on ${host}: ${answer}`);
  }

  /** Runs a program in the namespace. */
  async run(program: string, args: readonly string[], input?: string): Promise<string> {
    const words = ["--target", String(this.pid), "--net", program, ...args];
    const { stdout } = await runCommand("nsenter", words, { input });
    return stdout;
  }

  async ip(...lines: readonly string[]): Promise<void> {
    await this.run("ip", ["-batch", "-"], lines.map((line) => `${line}\n`).join(""));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.kill("SIGKILL");
    await ended;
  }
}

export const podAddresses = ["10.1.0.2", "fd00:1::2"] as const;
export const cellAddresses = ["10.0.0.2", "fd00::2"] as const;
export const cable = "kip-pod";

/**
 * ```
 *   pod (10.1.0.2) ── kip-pod, cell (10.0.0.2) ── others (10.0.0.11, .12, .13 and .100)
 * ```
 */
export class TestNetwork implements AsyncDisposable {
  readonly pod: Peer = new Peer();
  readonly cell: Peer = new Peer();
  readonly others: Peer = new Peer();

  static async open(): Promise<TestNetwork> {
    const network = new TestNetwork();
    try {
      await network.#connect();
    } catch (error) {
      await network[Symbol.asyncDispose]();
      throw error;
    }
    return network;
  }

  async #connect(): Promise<void> {
    const { pod, cell, others } = this;
    // A namespace is there when its process answers.
    await Promise.all([pod, cell, others].map(async (peer) => await peer.listen("0.0.0.0", 1)));
    await cell.ip(
      "link set lo up",
      `link add ${cable} type veth peer name eth0 netns ${pod.pid}`,
      `link add eth0 type veth peer name eth0 netns ${others.pid}`,
      "link set eth0 up",
      `link set ${cable} up`,
      "addr add 10.0.0.2/24 dev eth0",
      "addr add fd00::2/64 dev eth0 nodad",
      "route add default via 10.0.0.100",
      "route add default via fd00::100",
      `route add 10.1.0.2/32 dev ${cable} scope link`,
      `route add fd00:1::2/128 dev ${cable}`,
      `addr add fe80::1/64 dev ${cable} nodad`,
    );
    await cell.run("sh", [
      "-c",
      `echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
       echo 1 >/proc/sys/net/ipv4/conf/${cable}/proxy_arp`,
    ]);
    await pod.ip(
      "link set lo up",
      "link set eth0 up",
      "addr add 10.1.0.2/32 dev eth0",
      "addr add fd00:1::2/128 dev eth0 nodad",
      "route add 169.254.1.1 dev eth0 scope link",
      "route add default via 169.254.1.1 dev eth0",
      "route add default via fe80::1 dev eth0",
    );
    await others.ip(
      "link set lo up",
      "link set eth0 up",
      ...["11", "12", "13", "100"].map((host) => `addr add 10.0.0.${host}/24 dev eth0`),
      ...["11", "12", "13", "100"].map((host) => `addr add fd00::${host}/64 dev eth0 nodad`),
      "route add 10.1.0.2/32 via 10.0.0.2",
      "route add fd00:1::2/128 via fd00::2",
    );
  }

  async nft(text: string): Promise<string> {
    return await this.cell.run("nft", ["-f", "-"], text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const peer of [this.pod, this.cell, this.others]) await peer[Symbol.asyncDispose]();
  }
}
