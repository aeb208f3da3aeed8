import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { runCommand } from "@kip/base";
import { cluster as numbered } from "../../e2e/cluster-number.ts";
import { specRegistry } from "./images/push-images.ts";

const kip = path.join(import.meta.dirname, "../../apps/kip/bin/kip");

/** The cluster to run specs on. */
export interface SpecCluster {
  readonly kubeconfig: string;
  readonly kubectl: string;
}

/** A local cluster for specs only. It has the addresses and ports of the tests' cluster with this number (KIP_E2E_NUMBER). */
export class LocalCluster {
  readonly registryPort: number = numbered.registryPort;
  readonly #folder: string;
  readonly #kubernetes: string;
  readonly #signal: AbortSignal;

  /**
   * @param folder folder for its state, created by {@link start}
   * @param kubernetes its version, for example `v1.34.10`
   */
  constructor(folder: string, kubernetes: string, signal: AbortSignal) {
    this.#folder = folder;
    this.#kubernetes = kubernetes;
    this.#signal = signal;
  }

  /** Starts the cluster, or uses it if it is running. */
  async start(): Promise<SpecCluster> {
    const settings = path.join(this.#folder, "settings.yaml");
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const endpoint = `http://${numbered.hostAddress}:${numbered.registryPort}`;
    // JSON is also YAML.
    await writeFile(settings, JSON.stringify({ registries: [{ host: specRegistry, endpoint }] }));
    await this.#kip(
      "up",
      `--port=${numbered.apiPort}`,
      `--registry-port=${numbered.registryPort}`,
      `--network-range=${numbered.networkRange}`,
      `--service-range=${numbered.serviceRange}`,
      `--settings=${settings}`,
      `--kubernetes=${this.#kubernetes}`,
    );
    return { kubeconfig: await this.#fact("kubeconfig"), kubectl: await this.#fact("kubectl") };
  }

  /** Runs `fill`, which fills the cluster's registry, unless an earlier run has done it. */
  async fillRegistry(content: string, fill: () => Promise<void>): Promise<void> {
    const file = path.join(this.#folder, "registry-content");
    const found = await readFile(file, "utf8").catch(() => "");
    if (found === content) return;
    await fill();
    await writeFile(file, content);
  }

  /** Removes the cluster. */
  async remove(): Promise<void> {
    await this.#kip("down");
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #fact(name: string): Promise<string> {
    return (await this.#kip("status", `--show=${name}`)).trim();
  }

  async #kip(command: string, ...flags: readonly string[]): Promise<string> {
    const own = [
      `--state-dir=${path.join(this.#folder, "state")}`,
      `--kubeconfig=${path.join(this.#folder, "user.kubeconfig")}`,
      `--namespace-name=${numbered.name}`,
    ];
    // An interruption must not leave a cluster behind.
    const signal = command === "down" ? undefined : this.#signal;
    return (await runCommand(kip, [command, ...own, ...flags], { signal })).stdout;
  }
}
