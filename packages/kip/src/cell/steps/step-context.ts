import type { Clock, Logger } from "@kip/base";
import type { AgentClient, DesiredImageSettings, DesiredRegistry, PodReport } from "@kip/agent-api";
import type { CloudDriver, LaunchImages } from "@kip/cloud";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import type { CloudLogIns } from "../../dispatch/cloud-log-ins.ts";
import type { DnsSettings } from "../../dispatch/pod-network-files.ts";
import { KnownImages } from "../../dispatch/launch-images.ts";
import type { CellIdentities } from "../../identity/cell-identity.ts";
import type { LogArchive } from "../../logs/log-archive.ts";
import type { CellChooser } from "../../selection/cell-chooser.ts";
import type { CellMemory } from "../../state/cell-memory.ts";
import { CellStatusWriter } from "../../store/cell-status-writer.ts";
import type { CellStore } from "../../store/cell-store.ts";
import type { Cell, CellStatus } from "../../state/cell.ts";

/** Dependencies of the steps. */
export interface CellStepsOptions {
  readonly store: CellStore;
  readonly driver: CloudDriver;
  readonly chooser: CellChooser;
  readonly identities: CellIdentities;
  readonly archive: LogArchive;
  readonly dns: () => Promise<DnsSettings>;
  readonly registries: readonly DesiredRegistry[];
  readonly images?: DesiredImageSettings | undefined;
  /** Log-ins of the cloud's own registries, if it has some. */
  readonly logIns?: CloudLogIns | undefined;
  /** The virtual node's address, `status.hostIP` of its pods. */
  readonly nodeIp: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Publishes an event of the pod. */
  readonly onEvent: (memory: CellMemory, reason: string, message: string) => void;
}

/** The actor of a pod, as its steps use it. */
export interface StepActor {
  readonly memory: CellMemory;
  /** The API's view of the cell. */
  cellSeen(cell: Cell | undefined): void;
  /** A connection to the agent was made. */
  agentFound(agent: AgentClient): void;
  /** The connection to the agent ended. */
  agentLost(): void;
  /** The agent sent a report. */
  reportSeen(report: PodReport): void;
  /** The pod's status may have changed in the course of a step. */
  statusChanged(): void;
  /** Reports why the current step waits. */
  reportWait(reason: string, message: string): void;
}

/** Shared by all steps: their dependencies, and the writing of a cell's status. */
export class StepContext {
  readonly options: CellStepsOptions;
  readonly statuses: CellStatusWriter;
  readonly knownImages = new KnownImages();

  constructor(options: CellStepsOptions) {
    this.options = options;
    this.statuses = new CellStatusWriter(options.store);
  }

  /** The images that a cell for this pod may have ready. */
  imagesOf(resolved: ResolvedPod): LaunchImages | undefined {
    const { registries, images } = this.options;
    const proxy = images?.proxy;
    return this.knownImages.imagesOf(resolved, { registries, ...(proxy && { proxy }) });
  }

  /** Sets a new status and writes it in the background; the newest one wins. */
  setStatus(memory: CellMemory, change: Partial<CellStatus>): void {
    memory.status = { ...memory.status, ...change };
    const { cell, status } = memory;
    if (!cell) return;
    memory.cell = { ...cell, status };
    this.statuses.write(cell, status).catch((error: unknown) => {
      this.options.logger.warn("Could not write the status of a cell", { err: error });
    });
  }
}

/** A precondition of a step, which the plan ensures. @throws TypeError if the plan has a bug */
export function required<T>(value: T | undefined, problem: string): T {
  if (value === undefined) throw new TypeError(`Cannot do this step: ${problem}`);
  return value;
}

/** Times of the start as whole milliseconds. */
export function rounded(startMs: CellMemory["startMs"]): NonNullable<CellStatus["startMs"]> {
  return Object.fromEntries(Object.entries(startMs).map(([phase, ms]) => [phase, Math.round(ms)]));
}
