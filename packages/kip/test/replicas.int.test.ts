// Two kips of one node with a real API server. One works and the other takes over. Pods and machines stay.
import assert from "node:assert/strict";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { CloudError, type CloudDriver, type LaunchRequest } from "@kip/cloud";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import {
  createApiClient,
  K8sError,
  loadKubeConfig,
  wrapRequests,
  type ApiClient,
} from "@kip/k8s-client";
import { eventually, temporaryFolder } from "@kip/testing";
import { runInTurns, type TurnParts } from "../src/replicas/run-in-turns.ts";
import { openSimulatedCells } from "./simulated-cells.ts";
import { startSimulatedNode } from "./simulated-node.ts";

const nodeName = "replicated";
const durationMs = 15_000;
const folder = temporaryFolder();
const shared = { clock: systemClock, logger: silentLogger };
const cells = openSimulatedCells(1);

describe("two kips of one node", { timeout: 300_000 }, () => {
  let plane: SharedControlPlane;
  let kubectl: (...args: readonly string[]) => Promise<string>;
  const replicas: Replica[] = [];

  before(
    async () => {
      plane = await sharedControlPlane();
      const namespace = await plane.createNamespace("replicas");
      kubectl = async (...args) => await plane.kubectl(["-n", namespace, ...args]);
    },
    { timeout: 900_000 },
  );

  after(async () => {
    for (const replica of replicas) await replica.stop();
    await cells[Symbol.asyncDispose]();
    await plane?.[Symbol.asyncDispose]();
    folder.remove();
  });

  async function replica(name: string): Promise<Replica> {
    const started = await Replica.start(plane, name);
    replicas.push(started);
    return started;
  }

  const run = async (pod: string): Promise<void> => {
    const overrides = { spec: { nodeName, tolerations: [{ operator: "Exists" }] } };
    const image = "--image=example.test/web:1";
    await kubectl("run", pod, image, `--overrides=${JSON.stringify(overrides)}`);
    await kubectl("wait", "--for=condition=Ready", `pod/${pod}`, "--timeout=60s");
  };

  it("work one after the other, and change nothing out of turn", async () => {
    const first = await replica("first");
    await first.works;
    await run("web");
    const machines = (await first.driver.list()).map(({ id }) => id);
    assert.equal(machines.length, 1);

    const second = await replica("second");
    first.loseApi();
    const parts = await second.works;
    assert.equal(first.turns[0]?.signal.aborted, true, "the first stops before the second begins");

    await run("more");
    assert.equal((await second.driver.list()).length, 2);
    await assert.rejects(
      async () => await first.turns[0]?.driver.terminate(machines[0] ?? ""),
      (error) => CloudError.is(error, "CLOUD_UNAVAILABLE"),
    );
    await assert.rejects(
      async () => await first.turns[0]?.driver.launch({} as unknown as LaunchRequest), // never used
      (error) => CloudError.is(error, "CLOUD_UNAVAILABLE"),
    );
    await assert.rejects(
      async () => await first.turns[0]?.client.delete("/api/v1/namespaces/none"),
      (error) => K8sError.is(error, "K8S_LEASE_LOST"),
    );
    assert.equal(
      await kubectl("get", "pod", "web", "-o", "jsonpath={.status.phase} {.metadata.uid}"),
      `Running ${(await second.driver.list()).find(({ id }) => id === machines[0])?.tags["kip-pod-uid"]}`,
    );

    // When it is stopped, it hands over at once: the first one has reached the API again by then.
    first.findApi();
    await second.stop();
    await eventually(() => first.turns.length > 1, {
      what: "the first to work again",
      limitMs: 60_000,
      intervalMs: 50,
    });
    assert.equal(parts.signal.aborted, true);
    await kubectl("delete", "pod", "web", "more", "--timeout=60s");
    assert.deepEqual(await first.driver.list(), []);
  });
});

/** A kip that takes turns with others. */
class Replica {
  readonly driver: CloudDriver;
  /** The parts that each turn got. */
  readonly turns: TurnParts[] = [];
  readonly #first = Promise.withResolvers<TurnParts>();
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #hasApi = true;

  static async start(plane: SharedControlPlane, name: string): Promise<Replica> {
    const config = await loadKubeConfig({ path: plane.kubeconfigPath });
    return new Replica(createApiClient(config, { ...shared, userAgent: `kip/${name}` }), name);
  }

  private constructor(client: ApiClient, name: string) {
    this.driver = cells.cloud.open({ owner: "replicated" });
    this.#running = runInTurns({
      ...shared,
      nodeName,
      durationMs,
      client: this.#cut(client),
      driver: this.driver,
      signal: this.#stop.signal,
      run: async (parts) => await this.#run(parts, path.join(folder.path, name)),
    });
  }

  /** Resolves with its first turn. */
  get works(): Promise<TurnParts> {
    return Promise.race([this.#first.promise, this.#running.then(() => this.#first.promise)]);
  }

  loseApi(): void {
    this.#hasApi = false;
  }

  findApi(): void {
    this.#hasApi = true;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(parts: TurnParts, logDir: string): Promise<void> {
    await using _node = await startSimulatedNode({
      client: parts.client,
      driver: parts.driver,
      signal: parts.signal,
      controllerID: "replicated",
      nodeName,
      logDir,
    });
    this.turns.push(parts);
    this.#first.resolve(parts);
    await new Promise((resolve) => parts.signal.addEventListener("abort", resolve));
  }

  /** A client whose requests fail while the API is unreachable. */
  #cut(client: ApiClient): ApiClient {
    return wrapRequests(client, async (_verb, send) => {
      if (this.#hasApi) return await send();
      throw new K8sError("K8S_UNAVAILABLE", "The API server cannot be reached");
    });
  }
}
