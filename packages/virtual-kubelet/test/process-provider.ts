import { spawn } from "node:child_process";
import { Readable, type Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type ProcessStreams } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import { VirtualKubeletError } from "@kip/virtual-kubelet";
import { connectPort, connectProcess, type LogOptions } from "../src/index.ts";
import type { KubeletHandlers } from "../src/kubelet-api/index.ts";

/**
 * Kubelet handlers whose containers are processes of this machine, for tests: `exec` runs the command
 * in `folder`, `attach` echoes, `portForward` connects to loopback, logs are ten numbered lines.
 */
export class ProcessProvider implements KubeletHandlers {
  pod: Pod;
  readonly folder: string;
  readonly nodeName = "node";
  /** Requests for logs, as they arrived. */
  readonly logRequests: LogOptions[] = [];
  /** One entry for each call whose client left before its end. */
  readonly aborted: string[] = [];
  /** Resolves the next time a client leaves. */
  nextAbort = Promise.withResolvers<void>();

  constructor(pod: Pod, folder: string) {
    this.pod = pod;
    this.folder = folder;
  }

  pods(): readonly Pod[] {
    return [this.pod];
  }

  runningPods(): readonly Pod[] {
    return [this.pod];
  }

  findPod(namespace: string, name: string, uid?: string): Pod | undefined {
    const { metadata } = this.pod;
    const isSame = metadata?.namespace === namespace && metadata.name === name;
    return isSame && (uid === undefined || uid === metadata?.uid) ? this.pod : undefined;
  }

  readonly logs = async (
    _pod: Pod,
    _container: string,
    options: LogOptions,
    signal: AbortSignal,
  ): Promise<Readable> => {
    this.logRequests.push(options);
    this.#watch("logs", signal);
    if (options.previous)
      throw new VirtualKubeletError("VK_NOT_FOUND", "Cannot read the log: there is none");
    const lines = Array.from({ length: 10 }, (_, index) => `line ${index + 1}\n`);
    const chosen = options.tailLines === undefined ? lines : lines.slice(10 - options.tailLines);
    return Readable.from(
      (async function* () {
        for (const line of chosen) yield line;
        if (!options.follow) return;
        yield "followed\n";
        await new Promise<void>((resolve) => {
          signal.addEventListener("abort", () => resolve());
        });
      })(),
      { objectMode: false },
    );
  };

  readonly exec = async (
    _pod: Pod,
    _container: string,
    command: readonly string[],
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<{ exitCode: number }> => {
    this.#watch("exec", signal);
    if (streams.tty) return await terminal(streams);
    const [program = "", ...args] = command;
    return connectProcess(spawn(program, args, { cwd: this.folder, signal }), streams);
  };

  readonly attach = async (
    _pod: Pod,
    _container: string,
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<{ exitCode: number }> => {
    this.#watch("attach", signal);
    streams.stdout?.write("attached\n");
    if (streams.stdin && streams.stdout) await pipeline(streams.stdin, streams.stdout);
    return { exitCode: 0 };
  };

  readonly portForward = async (
    _pod: Pod,
    port: number,
    connection: Duplex,
    signal: AbortSignal,
  ): Promise<void> => {
    this.#watch("portForward", signal);
    await connectPort({ host: "127.0.0.1", port }, connection, signal);
  };

  #watch(name: string, signal: AbortSignal): void {
    signal.addEventListener("abort", () => {
      this.aborted.push(name);
      this.nextAbort.resolve();
      this.nextAbort = Promise.withResolvers();
    });
  }
}

/** A terminal that prints each size it takes and each line it is given; `exit` ends it with code 5. */
async function terminal(streams: ProcessStreams): Promise<{ exitCode: number }> {
  const { stdin, stdout, resizes } = streams;
  void (async () => {
    for await (const { columns, rows } of resizes ?? [])
      stdout?.write(`size ${columns}x${rows}\r\n`);
  })();
  let text = "";
  for await (const chunk of stdin ?? []) {
    text += String(chunk);
    stdout?.write(`got ${JSON.stringify(String(chunk))}\r\n`);
    if (text.includes("exit")) return { exitCode: 5 };
  }
  return { exitCode: 0 };
}
