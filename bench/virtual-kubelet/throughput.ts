import { fork } from "node:child_process";
import { once } from "node:events";
import path from "node:path";

/** Median throughput in MB/s of exec, port-forward and a bare TLS pipe, by kind. Each runs in its own process. */
export async function throughput(
  megabytes: number,
  runs: number,
): Promise<Readonly<Record<string, number>>> {
  const folder = path.join(import.meta.dirname, "../../packages/virtual-kubelet/test");
  const child = fork(path.join(folder, "stream-throughput.ts"), [String(megabytes), String(runs)], {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const [speeds] = (await once(child, "message")) as [Record<string, number>]; // our own child
  return speeds;
}
