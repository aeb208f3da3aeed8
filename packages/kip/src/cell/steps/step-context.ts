import type { AgentClient, waitForAgent } from "@kip/agent-api";
import type { KipMetrics } from "../../metrics/kip-metrics.ts";
import type { Clock, Logger } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import type { Tracer } from "@kip/virtual-kubelet/telemetry";
import type { OrphanInstances } from "../../collect/orphan-instances.ts";
import type { ProviderConfig } from "../../config/provider-config.ts";
import type { CloudLogIns } from "../../dispatch/cloud-log-ins.ts";
import type { DocumentPlaces } from "../../dispatch/document-places.ts";
import type { KnownImages } from "../../dispatch/launch-images.ts";
import type { DnsSettings } from "../../dispatch/resolv-conf.ts";
import type { CellIdentities } from "../../identity/cell-identity.ts";
import type { LogArchive } from "../../logs/log-archive.ts";
import type { CellChooser } from "../../selection/cell-chooser.ts";
import type { LaunchPace } from "../../selection/launch-pace.ts";
import type { WantedMachine } from "../../selection/standby-spec.ts";
import type { Shortages } from "../../selection/shortages.ts";
import type { KnownNetworkFacts } from "../../network/network-facts.ts";
import type { ClusterNetwork } from "../../network/cluster-network.ts";
import type { CellPart, CellState } from "../../state/cell-state.ts";
import type { Cell, CellStatus, StandbyCell } from "../../state/cell.ts";
import type { CellStatusWriter } from "../../store/cell-status-writer.ts";
import type { PodReplacement } from "../../store/pod-replacement.ts";
import type { CellStore } from "../../store/cell-store.ts";
import type { CellContext } from "../cell-step.ts";
import type { InstanceList } from "./instance-list.ts";

/** The part of the configuration that steps read. Read it when it is needed: it changes while kip runs. */
export type CellSettings = Pick<
  ProviderConfig,
  "registries" | "images" | "logs" | "seccompProfileRoot" | "nametag" | "cloudInit"
>;

/** The standby cells, as pods use them. */
export interface StandbyClaims {
  /** Whether there are any, or are to be. */
  readonly isUsed: boolean;
  /**
   * Writes the pod into a standby cell that is as it wants it, unless none is ready.
   *
   * @throws as the write, which may have had its effect all the same
   */
  claim(wanted: WantedMachine): Promise<Cell | undefined>;
  /** The pod gets a cell of its own. */
  missed(wanted: WantedMachine): void;
  /** The open connection to the agent of a claimed standby cell; only the first call returns it. */
  takeAgent(cellUid: string): AgentClient | undefined;
}

/** What the steps of all cells work with. */
export interface CellTools {
  readonly store: CellStore;
  readonly statuses: CellStatusWriter;
  readonly driver: CloudDriver;
  /** Lists the cloud's instances, for all cells together. */
  readonly instances: InstanceList;
  /** ID of the cluster, which its instances carry. */
  readonly clusterID: string;
  readonly chooser: CellChooser;
  /** What the cloud has no capacity of. */
  readonly shortages: Shortages;
  /** How fast the cloud takes launches. */
  readonly pace: LaunchPace;
  /** Instances without a Cell that were there at the start. @default none */
  readonly orphans?: Pick<OrphanInstances, "endedFor"> | undefined;
  readonly replacement: Pick<PodReplacement, "evict" | "ready">;
  readonly identities: CellIdentities;
  /** Connects to an agent. @default `waitForAgent` */
  readonly dial?: typeof waitForAgent | undefined;
  readonly archive: LogArchive;
  readonly dns: () => Promise<DnsSettings>;
  /** What the cloud says of its network. @default nothing */
  readonly networkFacts?: Pick<KnownNetworkFacts, "get"> | undefined;
  /** The configuration in force; it changes while kip runs. */
  readonly settings: () => CellSettings;
  readonly knownImages: KnownImages;
  readonly documents: DocumentPlaces;
  /** Of pods without a cell, whose documents are made to check their size: these wait for no agent. */
  readonly sizeChecks: DocumentPlaces;
  /** @default there are none */
  readonly standby?: StandbyClaims | undefined;
  /** Log-ins of the cloud's own registries, if it has some. */
  readonly logIns?: CloudLogIns | undefined;
  /** The cluster's network for cells. @default cells have no Services and policies */
  readonly network?:
    | Pick<ClusterNetwork, "settings" | "isWatched" | "synced" | "hasTiers" | "subscribe">
    | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<KipMetrics, "started">;
  readonly tracer: Tracer;
  /** Publishes an event of a pod, of type `Normal`. */
  readonly onEvent: (podUid: string, reason: string, message: string) => void;
  /** Publishes an event of a pod, of type `Warning`. */
  readonly onProblem: (podUid: string, reason: string, message: string) => void;
}

/** Changes the Cell's status, which is written as by {@link noteStatus}. */
export function setStatus(
  tools: Pick<CellTools, "statuses">,
  { change, state }: Pick<CellContext, "change" | "state">,
  status: Partial<CellStatus>,
): void {
  change({ kind: "cellStatus", status });
  noteStatus(tools, state());
}

/**
 * Sets a status that lasts only until the next step of a start or a stop: written within ten seconds, or together
 * with the next one.
 */
export function setTransientStatus(
  { statuses }: Pick<CellTools, "statuses">,
  { change, state }: Pick<CellContext, "change" | "state">,
  status: Partial<CellStatus>,
): void {
  change({ kind: "cellStatus", status });
  const { cell } = state();
  if (cell.object) statuses.noteTransient(cell.object, cell.status);
}

/**
 * Has the Cell's status, or a newer one, written within a second. Only for a status that kip can do without after a
 * restart.
 */
export function noteStatus({ statuses }: Pick<CellTools, "statuses">, { cell }: CellState): void {
  if (cell.object) statuses.note(cell.object, cell.status);
}

/** The Cell that the state has. @throws as {@link required} */
export function cellOf({ state }: Pick<CellContext, "state">): Cell | StandbyCell {
  return required(state().cell.object, "there is no cell");
}

/** A precondition of a step, which the plan ensures. @throws TypeError if the plan has a bug */
export function required<T>(value: T | undefined, problem: string): T {
  if (value === undefined) throw new TypeError(`Cannot do this step: ${problem}`);
  return value;
}

/** Times of the start as whole milliseconds. */
export function rounded(startMs: CellPart["startMs"]): CellPart["startMs"] {
  return Object.fromEntries(Object.entries(startMs).map(([phase, ms]) => [phase, Math.round(ms)]));
}
