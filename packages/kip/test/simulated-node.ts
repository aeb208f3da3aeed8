import { silentLogger, systemClock } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import type { ApiClient } from "@kip/k8s-client";
import { startNode, type NodeOptions } from "@kip/virtual-kubelet";
import { decodeProviderConfig } from "../src/config/provider-config.ts";
import { startKip } from "../src/start-kip.ts";

/** Options of {@link startSimulatedNode}. */
export interface SimulatedNodeOptions {
  readonly client: ApiClient;
  readonly driver: CloudDriver;
  readonly controllerID: string;
  readonly clusterID?: string | undefined;
  readonly nodeName: string;
  readonly logDir: string;
  readonly signal?: AbortSignal | undefined;
  readonly intervals?: NodeOptions["intervals"];
}

/** Starts a kip with its node on simulated machines. Disposing it stops both. */
export async function startSimulatedNode(options: SimulatedNodeOptions): Promise<AsyncDisposable> {
  const { client, nodeName, intervals, ...others } = options;
  const shared = { client, nodeName, clock: systemClock, logger: silentLogger };
  await using stack = new AsyncDisposableStack();
  const { provider } = stack.use(
    await startKip({
      ...shared,
      ...others,
      config: decodeProviderConfig({
        cloud: { local: {} },
        cells: { bootImageSpec: { name: "cell" }, defaultInstanceType: "sim.1" },
      }),
      nodeIps: ["127.0.0.1"],
      clusterDns: [],
    }),
  );
  stack.use(await startNode({ ...shared, provider, intervals }));
  return stack.move();
}
