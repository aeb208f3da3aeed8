import { untilAborted } from "@kip/base";
import { boundPods } from "./collect/bound-pods.ts";
import { collect } from "./collect/collect.ts";
import { OrphanInstances } from "./collect/orphan-instances.ts";
import type { ProviderConfig } from "./config/provider-config.ts";
import {
  createProvider,
  withPods,
  type MeasuredOptions,
  type OpenedParts,
} from "./create-provider.ts";
import { CellIdentities } from "./identity/cell-identity.ts";
import { KipMetrics } from "./metrics/kip-metrics.ts";
import { measuredDriver } from "./metrics/measured-driver.ts";
import { readNodeFacts } from "./node-facts.ts";
import type { KipProvider } from "./provider.ts";
import type { StartKipOptions } from "./start-kip-options.ts";
import type { Cell } from "./state/cell.ts";
import { CellStore } from "./store/cell-store.ts";

/** A running provider. */
export interface RunningKip extends AsyncDisposable {
  readonly provider: KipProvider;
  /**
   * Applies the keys of another configuration that may change while kip runs, which the table of keys calls "live": to cells
   * that start from now on, and to the virtual node. Other keys take effect at the next start.
   *
   * @throws errors of the cloud; the configuration is in force nevertheless, except for the node's
   */
  reconfigure(config: ProviderConfig): Promise<void>;
}

/**
 * Starts the provider: installs the Cell resource, opens the certificate authority, takes over the existing cells, and ends
 * what has no owner. The virtual kubelet registers the node.
 *
 * @throws the reason of the options' signal, even while the API server or the cloud does not respond
 */
export async function startKip(given: StartKipOptions): Promise<RunningKip> {
  const { clock } = given;
  const metrics = new KipMetrics(clock);
  const driver = measuredDriver(given.driver, { clock, observe: metrics.cloudRequest });
  const options = { ...given, driver, metrics };
  const stop = new AbortController();
  const signal = given.signal ? AbortSignal.any([given.signal, stop.signal]) : stop.signal;
  const opened = await untilAborted(openParts(options), signal);
  try {
    const { provider, cells, steps, standby, network } = createProvider(options, opened, signal);
    network.start();
    await cells.synced;
    standby.start(steps.standby, cells.list());
    const { orphans, settings } = opened;
    const healthMs = (): number | undefined => settings.current.cloudHealthIntervalMs;
    const podCells = (): readonly Cell[] => withPods(cells.list());
    const known = { cells: podCells, knownCells: () => cells.list() };
    const parts = { orphans, provider, ...known, healthMs };
    const collecting = collect({ ...options, ...parts, signal });
    return {
      provider,
      reconfigure: async (config) => {
        opened.settings.current = config;
        standby.reconfigured();
        provider.retryStarts();
        const { nodeInfo } = opened.nodeFacts;
        const facts = await readNodeFacts({ ...options, config });
        // Keep the IDs of this start of kip.
        provider.changeNode({ ...facts, nodeInfo });
      },
      [Symbol.asyncDispose]: async () => {
        stop.abort();
        await Promise.all([provider.stop(), standby.stop()]);
        await collecting;
      },
    };
  } catch (error) {
    stop.abort();
    throw error;
  }
}

async function openParts(options: MeasuredOptions): Promise<OpenedParts> {
  const { client, namespace = "kip-system", clock } = options;
  const store = new CellStore(client);
  await store.ensureCrd(options.signal);
  await store.restoreLabels(options.nodeName);
  const identities = await CellIdentities.open({
    client,
    namespace,
    secretName: "kip-cell-ca",
    clock,
  });
  const settings = { current: options.config };
  const { driver, controllerID, clusterID = controllerID, metrics, logger } = options;
  const orphans = new OrphanInstances({
    driver,
    store,
    boundPods: async () => await boundPods(client, options.nodeName),
    clusterID,
    metrics,
    clock,
    logger,
  });
  return { store, orphans, identities, settings, nodeFacts: await readNodeFacts(options) };
}
