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

/** The resources of an installation of kip in its cloud and in the API. */
export interface LeftOvers {
  /** Instances that have not ended, with their Cell if they have one. */
  readonly instances: readonly OwnedInstance[];
  readonly volumes: readonly Volume[];
  /** Dedicated hosts, of all its nodes, with instances or without. */
  readonly hosts: readonly DedicatedHost[];
  /** Why the cloud does not let its hosts be listed, one sentence. @default they are all in `hosts` */
  readonly hostsUnknown?: string | undefined;
  /** Cells of this installation, of all its nodes. */
  readonly cells: readonly (Cell | StandbyCell)[];
}

/** An instance of the installation. */
export interface OwnedInstance extends Instance {
  /** Undefined: no Cell of this cluster stands for it. */
  readonly cell: Cell | StandbyCell | undefined;
  /** False: another cluster has been given the same ID of the installation, and its kip launched this one. */
  readonly isOfThisCluster: boolean;
}

/** Where an installation is. */
export interface Installation {
  readonly driver: CloudDriver;
  readonly client: ApiClient;
  /** ID of the installation, which its instances carry. */
  readonly controllerID: string;
  /** ID of the cluster that the client speaks to. */
  readonly clusterID: string;
}

/**
 * Lists the resources of the installation. Instances are listed before Cells, so an instance without a Cell in the
 * answer had none when it was listed. A cluster without the Cell resource has no Cells.
 *
 * @throws {CloudError | K8sError} if the cloud or the API does not answer: nothing is known then
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

/** Without the right to list hosts the rest is still listed: most installations never had a host. */
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
