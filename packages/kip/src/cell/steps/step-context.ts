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

/** The part of the configuration that steps use. Read it when needed, because it changes while kip runs. */
export type CellSettings = Pick<
  ProviderConfig,
  "registries" | "images" | "logs" | "seccompProfileRoot" | "nametag" | "cloudInit"
>;

/** The standby cells, from the point of view of pods. */
export interface StandbyClaims {
  /** Whether there are any, or will be. */
  readonly isUsed: boolean;
  /**
   * Assigns a standby cell with the wanted machine to the pod. Undefined if none is ready.
   *
   * @throws errors of the write, which may have succeeded nevertheless
   */
  claim(wanted: WantedMachine): Promise<Cell | undefined>;
  /**
   * Resolves when a standby cell with the wanted machine is ready and no older pod waits for one. Another pod may still claim
   * it first.
   *
   * @param createdAt when the pod was created, milliseconds since the Unix epoch
   * @throws the signal's reason
   */
  untilReady(wanted: WantedMachine, createdAt: number, signal: AbortSignal): Promise<void>;
  /** Records that the pod gets its own cell. */
  missed(wanted: WantedMachine): void;
  /** The open connection to the agent of a claimed standby cell; only the first call returns it. */
  takeAgent(cellUid: string): AgentClient | undefined;
}

/** Tools that the steps of all cells share. */
export interface CellTools {
  readonly store: CellStore;
  readonly statuses: CellStatusWriter;
  readonly driver: CloudDriver;
  /** Lists the cloud's instances, for all cells together. */
  readonly instances: InstanceList;
  /** ID of the cluster, which is in its instances' tags. */
  readonly clusterID: string;
  readonly chooser: CellChooser;
  /** The shortages of the cloud. */
  readonly shortages: Shortages;
  /** The rate at which the cloud accepts launches. */
  readonly pace: LaunchPace;
  /** Instances without a Cell that existed at the start. @default none */
  readonly orphans?: Pick<OrphanInstances, "endedFor"> | undefined;
  readonly replacement: Pick<PodReplacement, "evict" | "ready">;
  readonly identities: CellIdentities;
  /** Connects to an agent. @default `waitForAgent` */
  readonly dial?: typeof waitForAgent | undefined;
  readonly archive: LogArchive;
  readonly dns: () => Promise<DnsSettings>;
  /** Facts about the cloud's network. @default nothing */
  readonly networkFacts?: Pick<KnownNetworkFacts, "get"> | undefined;
  /** The current configuration, which changes while kip runs. */
  readonly settings: () => CellSettings;
  readonly knownImages: KnownImages;
  readonly documents: DocumentPlaces;
  /**
   * Places for documents of pods without a cell, which are only made to check their size, and for the checks of pods that wait for
   * a machine. They do not wait for agents.
   */
  readonly sizeChecks: DocumentPlaces;
  /** @default there are no standby cells */
  readonly standby?: StandbyClaims | undefined;
  /** Logins for the cloud's own registries, if it has any. */
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

/** Changes the Cell's status. It is written like by {@link noteStatus}. */
export function setStatus(
  tools: Pick<CellTools, "statuses">,
  { change, state }: Pick<CellContext, "change" | "state">,
  status: Partial<CellStatus>,
): void {
  change({ kind: "cellStatus", status });
  noteStatus(tools, state());
}

/**
 * Sets a status that only lasts until the next step of a start or a stop. It is written within ten seconds, or together with
 * the next one.
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
 * Makes sure that the Cell's status, or a newer one, is written within a second. Only for a status that kip can do without
 * after a restart.
 */
export function noteStatus({ statuses }: Pick<CellTools, "statuses">, { cell }: CellState): void {
  if (cell.object) statuses.note(cell.object, cell.status);
}

/** The Cell in the state. @throws like {@link required} */
export function cellOf({ state }: Pick<CellContext, "state">): Cell | StandbyCell {
  return required(state().cell.object, "there is no cell");
}

/** Checks a precondition of a step, which the plan ensures. @throws TypeError if the plan has a bug */
export function required<T>(value: T | undefined, problem: string): T {
  if (value === undefined) throw new TypeError(`Cannot do this step: ${problem}`);
  return value;
}

/** Start times in whole milliseconds. */
export function rounded(startMs: CellPart["startMs"]): CellPart["startMs"] {
  return Object.fromEntries(Object.entries(startMs).map(([phase, ms]) => [phase, Math.round(ms)]));
}
