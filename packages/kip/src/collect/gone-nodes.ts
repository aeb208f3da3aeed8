import { errorText, withTimeout, type Clock, type Logger } from "@kip/base";
import { ignoreNotFound, paths, type ApiClient } from "@kip/k8s-client";
import type { Lease, Node, Pod } from "@kip/k8s-types";
import { CloudError, type CloudDriver, type Instance } from "@kip/cloud";
import { isOfCluster } from "./orphan-instances.ts";
import { runOneTurn } from "../replicas/run-one-turn.ts";
import { turnLease, turnNamespace, type TurnParts } from "../replicas/run-in-turns.ts";
import { hasEnded } from "../state/cell-state.ts";
import { nodeLabel, type Cell, type StandbyCell } from "../state/cell.ts";
import { CellStore } from "../store/cell-store.ts";

/** Options of {@link GoneNodes}. */
export interface GoneNodesOptions {
  readonly client: ApiClient;
  readonly driver: CloudDriver;
  /** The virtual node of this kip. */
  readonly nodeName: string;
  readonly controllerID: string;
  readonly clusterID: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * How long there must have been no sign of a node's kip, milliseconds. A kip that runs registers its Node again
 * within seconds.
 */
const goneMs = 600_000;
/** How long to wait for the turn of the node, milliseconds: another kip may have it for the same reason. */
const turnLimitMs = 60_000;
/**
 * How long a turn waits for instances to end, milliseconds. Clouds need about a minute, and a kip of the node that
 * comes back has to wait as long.
 */
const endLimitMs = 120_000;

/** What is known of a node that does not exist. */
interface Silence {
  /** The versions of its Leases. */
  readonly leases: string;
  /** Monotonic milliseconds. */
  readonly since: number;
}

type AnyCell = Cell | StandbyCell;

/**
 * Ends the cells of other virtual nodes whose kip is gone for good.
 *
 * A node counts as gone when for ten minutes, at each look, there was no Node object of its name and no pod bound to it that has
 * not ended, and both of its Leases were unchanged. Its cells are ended in its turn, so that no kip can begin to run it meanwhile.
 * It waits two minutes at most for instances to end; one that has not ended by then is looked at again after another ten minutes.
 *
 * A cell is ended only if its Cell names the node and this installation, and if this kip's own cloud knows an instance of this
 * owner and cluster that was launched for this very Cell, which the Cell says from then on. Cells of which the cloud knows none
 * stay: their instances may be in another account or on another computer. `kip cleanup` with the configuration of their node
 * removes them.
 */
export class GoneNodes {
  readonly #options: GoneNodesOptions;
  readonly #silences = new Map<string, Silence>();
  /** Names of Cells that were said to stay. */
  readonly #reported = new Set<string>();

  constructor(options: GoneNodesOptions) {
    this.#options = options;
  }

  /**
   * Looks at the nodes that the Cells of others name, and ends the cells of those that are gone.
   *
   * @throws {K8sError} if the API does not answer
   */
  async look(signal: AbortSignal): Promise<void> {
    const nodes = new Set((await this.#foreignCells()).map(({ spec }) => spec.nodeName));
    for (const known of this.#silences.keys()) if (!nodes.has(known)) this.#silences.delete(known);
    for (const node of nodes) {
      signal.throwIfAborted();
      if (await this.#isGone(node)) await this.#endCellsOf(node, signal);
    }
  }

  async #foreignCells(): Promise<readonly AnyCell[]> {
    const { client, nodeName, controllerID } = this.#options;
    const cells = await new CellStore(client).list(`${nodeLabel}!=${nodeName}`);
    return cells.filter(
      ({ spec }) => spec.nodeName !== nodeName && spec.controllerID === controllerID,
    );
  }

  async #isGone(node: string): Promise<boolean> {
    const now = this.#options.clock.monotonic();
    const leases = await this.#leaseVersions(node);
    if (await this.#isInUse(node)) {
      this.#silences.delete(node);
      return false;
    }
    const known = this.#silences.get(node);
    if (known?.leases === leases) return now - known.since >= goneMs;
    this.#silences.set(node, { leases, since: now });
    return false;
  }

  async #leaseVersions(node: string): Promise<string> {
    const { client } = this.#options;
    const versionOf = async (name: string): Promise<string> => {
      const path = paths.leases(turnNamespace, name);
      const lease = await ignoreNotFound(client.get<Lease>(path));
      return lease?.metadata?.resourceVersion ?? "";
    };
    return (await Promise.all([node, turnLease(node)].map(versionOf))).join(" ");
  }

  /** Whether the Node exists, or a pod bound to it that has not ended. */
  async #isInUse(node: string): Promise<boolean> {
    const { client } = this.#options;
    if (await ignoreNotFound(client.get<Node>(paths.nodes(node)))) return true;
    const query = { fieldSelector: `spec.nodeName=${node}` };
    const { items } = await client.list<Pod>(paths.pods(), { query });
    return items.some(({ status }) => !hasEnded(status));
  }

  async #endCellsOf(node: string, signal: AbortSignal): Promise<void> {
    const { logger, clock, client, driver, clusterID } = this.#options;
    const turn = { client, driver, nodeName: node, clock, logger, signal, limitMs: turnLimitMs };
    const isDone = await runOneTurn(turn, async (parts) => {
      // A kip without turns may have come.
      if (await this.#isInUse(node)) return true;
      const own = (await parts.driver.list()).filter((each) => isOfCluster(each, clusterID));
      const instances = new Map(own.map((each) => [each.token, each]));
      const cells = (await this.#foreignCells()).filter(({ spec }) => spec.nodeName === node);
      await Promise.all(
        cells.map(async (cell) => {
          const instance = instances.get(cell.metadata.uid);
          if (instance || this.#isBegun(cell)) await this.#end(cell, instance, parts);
          else this.#leave(cell);
        }),
      );
      return true;
    });
    if (isDone !== true && !signal.aborted)
      logger.warn("Could not end the cells of a node that is gone: its Lease was not to be had", {
        node,
        lease: `${turnNamespace}/${turnLease(node)}`,
        remedy: `Unless another kip ends them now, run kip cleanup --nodename=${node} as an administrator, or let kip update this Lease`,
      });
  }

  /** Whether a kip of this node has found the Cell's instance, and asked the cloud to end it. */
  #isBegun({ spec, status }: AnyCell): boolean {
    const { reason, message } = this.#statusOf(spec.nodeName);
    return status?.reason === reason && status.message === message;
  }

  #statusOf(node: string) {
    const message = `Node "${node}" is gone: the kip of node "${this.#options.nodeName}" ends its cell`;
    return { phase: "Terminating", reason: "NodeGone", message } as const;
  }

  /** Never throws: a cell that cannot be ended is tried again, and does not delay the others. */
  async #end(cell: AnyCell, instance: Instance | undefined, parts: TurnParts): Promise<void> {
    const { client, driver, signal } = parts;
    const { clock, logger } = this.#options;
    const store = new CellStore(client);
    const node = cell.spec.nodeName;
    const fields = { cell: cell.metadata.name, node, instance: instance?.id };
    try {
      if (instance) {
        await store.writeStatus(cell, { ...cell.status, ...this.#statusOf(node) });
        await driver.terminate(instance.id);
        await withTimeout(async (ending) => await driver.waitForTerminated(instance.id, ending), {
          limitMs: endLimitMs,
          clock,
          signal,
          error: hasNotEnded,
        });
      }
      await store.remove(cell);
      logger.warn("Ended a cell of a node that is gone", fields);
    } catch (error) {
      logger.warn("Could not end a cell of a node that is gone", {
        ...fields,
        problem: errorText(error),
      });
    }
  }

  #leave({ metadata: { name }, spec: { nodeName } }: AnyCell): void {
    if (this.#reported.has(name)) return;
    this.#reported.add(name);
    this.#options.logger.warn("Left a Cell of a node that is gone: this cloud does not know it", {
      cell: name,
      node: nodeName,
      remedy: `Run kip cleanup --nodename=${nodeName} with the provider.yaml of that node`,
    });
  }
}

function hasNotEnded(): CloudError {
  const message = `The instance has not ended within ${endLimitMs / 1000} s; it is looked at again later`;
  return new CloudError("CLOUD_UNAVAILABLE", message);
}
