import {
  CloudError,
  type CloudDriver,
  type DedicatedHost,
  type Instance,
  type Volume,
} from "@kip/cloud";
import { ignoreNotFound, type ApiClient } from "@kip/k8s-client";
import { isOfCluster } from "../collect/orphan-instances.ts";
import type { Cell, StandbyCell } from "../state/cell.ts";
import { CellStore } from "../store/cell-store.ts";

/** The resources of a kip installation in its cloud and in the API. */
export interface LeftOvers {
  /** Instances that have not ended, with their Cell if they have one. */
  readonly instances: readonly OwnedInstance[];
  readonly volumes: readonly Volume[];
  /** Dedicated hosts of all its nodes, with or without instances. */
  readonly hosts: readonly DedicatedHost[];
  /** Why the cloud's hosts cannot be listed, one sentence. @default they are all in `hosts` */
  readonly hostsUnknown?: string | undefined;
  /** Cells of all nodes of this installation. */
  readonly cells: readonly (Cell | StandbyCell)[];
}

/** An instance of the installation. */
export interface OwnedInstance extends Instance {
  /** Undefined if no Cell in this cluster has this instance. */
  readonly cell: Cell | StandbyCell | undefined;
  /** False if another cluster has the same installation ID, and its kip launched this instance. */
  readonly isOfThisCluster: boolean;
}

/** The location of an installation. */
export interface Installation {
  readonly driver: CloudDriver;
  readonly client: ApiClient;
  /** ID of the installation, which is in its instances' tags. */
  readonly controllerID: string;
  /** ID of the client's cluster. */
  readonly clusterID: string;
}

/**
 * Lists the resources of the installation. Instances are listed before Cells, so an instance without a Cell in the result had
 * none when it was listed. A cluster without the Cell resource has no Cells.
 *
 * @throws {CloudError | K8sError} if the cloud or the API does not respond
 */
export async function findLeftOvers(installation: Installation): Promise<LeftOvers> {
  const { driver, client, controllerID, clusterID } = installation;
  const [instances, volumes, hosts] = await Promise.all([
    driver.list(),
    driver.listVolumes(),
    listHosts(driver),
  ]);
  const all = (await ignoreNotFound(new CellStore(client).list())) ?? [];
  const byToken = new Map(all.map((cell) => [cell.metadata.uid, cell]));
  return {
    instances: instances.map((each) => ({
      ...each,
      cell: byToken.get(each.token),
      isOfThisCluster: isOfCluster(each, clusterID),
    })),
    volumes,
    ...hosts,
    cells: all.filter(({ spec }) => spec.controllerID === controllerID),
  };
}

/** Lists hosts. Without permission, the rest is still listed, because most installations never had a host. */
async function listHosts({
  hosts,
}: CloudDriver): Promise<Pick<LeftOvers, "hosts" | "hostsUnknown">> {
  try {
    return { hosts: (await hosts?.list()) ?? [] };
  } catch (error) {
    if (!CloudError.is(error, "CLOUD_AUTH")) throw error;
    const { message, remedy = "" } = error;
    return { hosts: [], hostsUnknown: [message, remedy].filter(Boolean).join(". ") };
  }
}
