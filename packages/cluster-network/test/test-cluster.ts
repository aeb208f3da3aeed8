import { silentLogger, systemClock, type Clock, type Logger } from "@kip/base";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, type ApiClient } from "@kip/k8s-client";

/** The control plane of the tests, and what a watch of it needs. Its disposal ends what was begun with `options`. */
export interface TestCluster extends AsyncDisposable {
  readonly plane: SharedControlPlane;
  readonly client: ApiClient;
  readonly options: {
    readonly clock: Clock;
    readonly logger: Logger;
    readonly signal: AbortSignal;
  };
}

/** Joins the control plane of the tests, or starts it. */
export async function openTestCluster(): Promise<TestCluster> {
  const plane = await sharedControlPlane();
  const common = { clock: systemClock, logger: silentLogger };
  const config = await loadKubeConfig({ path: plane.kubeconfigPath });
  const client = createApiClient(config, { userAgent: "test/1", ...common });
  const stop = new AbortController();
  return {
    plane,
    client,
    options: { ...common, signal: stop.signal },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      client.close();
      await plane[Symbol.asyncDispose]();
    },
  };
}
