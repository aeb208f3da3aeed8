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
 * How long a node's kip must have shown no sign of life, milliseconds. A running kip registers its Node again within seconds.
 */
const goneMs = 600_000;
/** How long to wait for the node's turn, milliseconds. Another kip may hold it for the same reason. */
const turnLimitMs = 60_000;
/**
 * How long a turn waits for instances to end, milliseconds. Clouds need about a minute. A returning kip of that node has to
 * wait equally long.
 */
const endLimitMs = 120_000;

/** The observations of a node that does not exist. */
interface Silence {
  /** The resource versions of its Leases. */
  readonly leases: string;
  /** Monotonic milliseconds. */
  readonly since: number;
}

type AnyCell = Cell | StandbyCell;

/**
 * Ends the cells of other virtual nodes whose kip is gone for good.
 *
 * A node counts as gone if for ten minutes, at each check, there was no Node object with its name and no bound pod that has not
 * ended, and both of its Leases were unchanged. Its cells are ended in its turn, so that no kip can start to run the node at
 * the same time. It waits at most two minutes for instances to end. An instance that has not ended by then is checked again
 * after another ten minutes.
 *
 * A cell is only ended if its Cell names the node and this installation, and if this kip's own cloud has an instance of this
 * owner and cluster that was launched for exactly this Cell. The Cell's status then names it. Cells without such an instance
 * are kept, because their instances may be in another account or on another computer. `kip cleanup` with their node's
 * configuration removes them.
 */
export class GoneNodes {
  readonly #options: GoneNodesOptions;
  readonly #silences = new Map<string, Silence>();
  /** Names of Cells that were reported as kept. */
  readonly #reported = new Set<string>();

  constructor(options: GoneNodesOptions) {
    this.#options = options;
  }

  /**
   * Checks the nodes that others' Cells name, and ends the cells of nodes that are gone.
   *
   * @throws {K8sError} if the API does not respond
   */
  async look(signal: AbortSignal): Promise<void> {
    const { client, nodeName } = this.#options;
    const others = await new CellStore(client).restoreLabels(nodeName);
    const nodes = new Set(this.#foreign(others).map(({ spec }) => spec.nodeName));
    for (const known of this.#silences.keys()) if (!nodes.has(known)) this.#silences.delete(known);
    for (const node of nodes) {
      signal.throwIfAborted();
      if (await this.#isGone(node)) await this.#endCellsOf(node, signal);
    }
  }

  /** The Cells of other nodes of this installation. */
  #foreign(cells: readonly AnyCell[]): readonly AnyCell[] {
    const { nodeName, controllerID } = this.#options;
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

  /** Whether the Node exists, or a bound pod that has not ended. */
  async #isInUse(node: string): Promise<boolean> {
    const { client } = this.#options;
    if (await ignoreNotFound(client.get<Node>(paths.nodes(node)))) return true;
    const query = { fieldSelector: `spec.nodeName=${node}` };
    const { items } = await client.list<Pod>(paths.pods(), { query });
    return items.some(({ status }) => !hasEnded(status));
  }

  async #endCellsOf(node: string, signal: AbortSignal): Promise<void> {
    const { logger, clock, client, driver, nodeName, clusterID } = this.#options;
    const turn = { client, driver, nodeName: node, clock, logger, signal, limitMs: turnLimitMs };
    const isDone = await runOneTurn(turn, async (parts) => {
      // A kip without turns may have started.
      if (await this.#isInUse(node)) return true;
      const own = (await parts.driver.list()).filter((each) => isOfCluster(each, clusterID));
      const instances = new Map(own.map((each) => [each.token, each]));
      const others = await new CellStore(client).list(`${nodeLabel}!=${nodeName}`);
      const cells = this.#foreign(others).filter(({ spec }) => spec.nodeName === node);
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

  /** Whether a kip of this node has found the Cell's instance and asked the cloud to end it. */
  #isBegun({ spec, status }: AnyCell): boolean {
    const { reason, message } = this.#statusOf(spec.nodeName);
    return status?.reason === reason && status.message === message;
  }

  #statusOf(node: string) {
    const message = `Node "${node}" is gone: the kip of node "${this.#options.nodeName}" ends its cell`;
    return { phase: "Terminating", reason: "NodeGone", message } as const;
  }

  /** Ends a cell. Never throws: a cell that cannot be ended is tried again, and does not delay the others. */
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
