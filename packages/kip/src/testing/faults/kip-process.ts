import { pause, silentLogger } from "@kip/base";
import { cloudOperations, wrapOperations, type CloudDriver } from "@kip/cloud";
import { wrapRequests, type ApiClient } from "@kip/k8s-client";
import { startNode } from "@kip/virtual-kubelet";
import { decodeProviderConfig, type ProviderConfig } from "../../config/provider-config.ts";
import { runInTurns, type TurnParts } from "../../replicas/run-in-turns.ts";
import { startKip, type RunningKip } from "../../start-kip.ts";
import { Gate, type GateWorld } from "./gate.ts";
import type { ApiServer } from "./api-server.ts";
import type { Machines } from "./machines.ts";

/** Name of the virtual node. */
export const nodeName = "kip";

/** The environment of a process of kip. */
export interface ProcessWorld extends GateWorld {
  readonly api: ApiServer;
  readonly machines: Machines;
  readonly openDriver: () => CloudDriver;
  /** Difference between the clock of kip's computer and the world's. */
  readonly skewMs: () => number;
  /** Wanted number of standby cells. */
  readonly standby: () => number;
  /** Whether there are several kips, which take turns by a Lease. */
  readonly isReplicated: boolean;
  /** Whether cells count as running if the cloud says so. */
  readonly isCloudAsked: boolean;
}

/** One process of kip: everything except the command line, the kubelet's port and the cluster's network. */
export class KipProcess {
  readonly gate: Gate;
  readonly #world: ProcessWorld;
  readonly #ended = new AbortController();
  #kip: RunningKip | undefined;
  #isReady = false;

  constructor(world: ProcessWorld) {
    this.#world = world;
    this.gate = new Gate(world, world.skewMs);
    void this.#run();
  }

  /** Whether the node is registered and knows its pods. */
  get isReady(): boolean {
    return this.#isReady && !this.gate.isDead;
  }

  /** Call this when the configuration has changed. */
  reconfigure(): void {
    void this.#kip?.reconfigure(configOf(this.#world)).catch(() => {}); // the cloud did not respond
  }

  /** Ends like on SIGTERM. */
  stop(): void {
    this.#ended.abort(new DOMException("The process was asked to end", "AbortError"));
  }

  async #run(): Promise<void> {
    const { gate } = this;
    const { api, openDriver, isReplicated } = this.#world;
    const driver = openDriver();
    gate.onDeath(() => {
      this.stop();
      void driver[Symbol.asyncDispose]();
    });
    const parts = {
      client: this.#client(api.client),
      driver: this.#driver(driver),
      signal: this.#ended.signal,
    };
    const run = async (ofTurn: TurnParts): Promise<void> => await this.#serve(ofTurn);
    const common = { nodeName, clock: gate.clock, logger: silentLogger };
    try {
      await (isReplicated ? runInTurns({ ...parts, ...common, run }) : run(parts));
    } catch {
      // A kip that cannot start ends, and is restarted.
    }
    gate.kill();
  }

  /** Does the same as the command. */
  async #serve({ client, driver, signal }: TurnParts): Promise<void> {
    const { machines, standby } = this.#world;
    const { clock } = this.gate;
    const began = standby();
    const config = configOf(this.#world);
    const common = { client, nodeName, clock, logger: silentLogger, signal };
    await using kip = await startKip({
      ...common,
      driver,
      config,
      controllerID: "kip",
      nodeIps: ["192.0.2.1"],
      clusterDns: [],
      logDir: "/nowhere",
      dial: machines.dialer(this.gate),
    });
    this.#kip = kip;
    if (standby() !== began) this.reconfigure();
    await using _node = await startNode({ ...common, provider: kip.provider, lease: false });
    this.#isReady = true;
    await pause(Number.POSITIVE_INFINITY, clock, signal);
    this.#isReady = false;
  }

  #client(client: ApiClient): ApiClient {
    const { gate } = this;
    return wrapRequests(client, async (_verb, send) => await gate.call("api", send));
  }

  #driver(driver: CloudDriver): CloudDriver {
    const { gate } = this;
    return wrapOperations(
      driver,
      cloudOperations,
      async (_operation, call, args) => await gate.call("cloud", async () => await call(...args)),
    );
  }
}

function configOf({ standby, isCloudAsked }: ProcessWorld): ProviderConfig {
  const pool = { instanceType: "sim.1", count: standby() };
  return decodeProviderConfig({
    cloud: { local: {} },
    cells: {
      bootImageSpec: { name: "cell" },
      defaultInstanceType: "sim.1",
      standbyCells: standby() > 0 ? [pool] : [],
      ...(isCloudAsked && { healthcheck: { cloudAPI: { interval: 15, healthyTimeout: 60 } } }),
    },
    kubelet: { cpu: "1000", memory: "4Ti", pods: 1000 },
  });
}
