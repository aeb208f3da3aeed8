// A kubelet API in a process of its own, so that its memory is its own. Told what to serve by its parent.
import { silentLogger, systemClock } from "@kip/base";
import { podWith } from "@kip/k8s-types/testing";
import { startKubeletApi, type KubeletTls } from "../src/kubelet-api/index.ts";
import { startBareTlsPipe } from "./bare-tls-pipe.ts";
import { ProcessProvider } from "./process-provider.ts";

/** What the parent asks. */
export type TargetQuestion =
  | { readonly ask: "start"; readonly tls: KubeletTls }
  /** The floor of what streams can reach. */
  | { readonly ask: "bare"; readonly tls: KubeletTls }
  /** Collects garbage first. */
  | { readonly ask: "memory" };

/** What it gets. */
export interface TargetAnswer {
  readonly port?: number;
  /** Resident set. */
  readonly memoryBytes?: number;
  /** Objects in use. */
  readonly heapBytes?: number;
}

const provider = new ProcessProvider(
  podWith({
    metadata: { name: "p", namespace: "ns", uid: "u1" },
    spec: { containers: [{ name: "c", image: "x" }] },
  }),
  "/tmp",
);

process.on("message", (question: TargetQuestion) => {
  void answer(question).then((text) => process.send?.(text));
});

async function answer(question: TargetQuestion): Promise<TargetAnswer> {
  if (question.ask === "memory") {
    globalThis.gc?.();
    const { rss, heapUsed } = process.memoryUsage();
    return { memoryBytes: rss, heapBytes: heapUsed };
  }
  if (question.ask === "bare") return { port: await startBareTlsPipe(question.tls) };
  const { port } = await startKubeletApi({
    host: "127.0.0.1",
    port: 0,
    ...question.tls,
    handlers: provider,
    logger: silentLogger,
    clock: systemClock,
  });
  return { port };
}
