import type { AgentClient, DesiredPod, DesiredSeccompProfile, PodReport } from "@kip/agent-api";
import type { Instance } from "@kip/cloud";
import type { Pod } from "@kip/k8s-types";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import type { InstanceState, Interruption } from "./cell-state.ts";
import type { Cell, CellStatus, EndedContainer, PodEnd, StandbyCell, StartPhase } from "./cell.ts";

/** What changes the state of a pod and its cell, by kind. */
export interface CellChanges {
  // Reported by the virtual kubelet and the API.
  /** The pod should run, in this form. */
  readonly applied: { readonly resolved: ResolvedPod };
  /** The pod is on its cell already, in a form that is not known yet. */
  readonly resumed: { readonly pod: Pod };
  /** The pod should stop. */
  readonly removed: { readonly graceSeconds: number; readonly pod?: Pod | undefined };
  /** The pod is terminal in the API. */
  readonly finished: { readonly pod?: Pod | undefined };
  readonly cellSeen: { readonly cell: Cell | StandbyCell };
  /** The Cell is gone or will be: kip asked for its deletion, or another client deleted it without its finalizer. */
  readonly cellGone: { readonly uid: string };

  // Reported by the cloud and the agent.
  readonly instanceEnded: { readonly token: string };
  /** `leftMs` is the time until the instance ends, milliseconds. */
  readonly interrupted: {
    readonly notice: Pick<Interruption, "instanceId" | "endsAt">;
    readonly leftMs: number;
  };
  /** The cloud was asked for its instances, and has answered. */
  readonly cloudAsked: { readonly isRunning: boolean };
  readonly reported: { readonly report: PodReport };
  readonly agentLost: object;
  /** Whether the agent counts as out of reach: the pod is not ready meanwhile. */
  readonly reach: { readonly isOutOfReach: boolean };

  // Reported by steps.
  readonly cellCreated: { readonly cell: Cell; readonly apiMs: number };
  /** Container facts of a cell that was lost while kip was not running. */
  readonly carried: {
    readonly restartCounts: Readonly<Record<string, number>>;
    readonly ended: Readonly<Record<string, EndedContainer>>;
  };
  readonly machine: { readonly state: InstanceState };
  readonly machineSeen: { readonly instance: Instance };
  /** The cloud has no capacity for the instance. */
  readonly refused: object;
  readonly launched: { readonly instance: Instance; readonly cloudMs: number };
  readonly running: { readonly instance: Instance; readonly cloudMs: number };
  /** The cloud has these tags of the instance. */
  readonly tagged: { readonly tags: Instance["tags"] };
  readonly terminated: object;
  readonly cellStatus: { readonly status: Partial<CellStatus> };
  readonly dialing: object;
  readonly connected: {
    readonly client: AgentClient;
    /** Of the pod that the agent has. */
    readonly generation?: number | undefined;
    /** The agent's first report, so that a pod that has ended is known to have before anything is asked of the agent. */
    readonly report?: PodReport | undefined;
    readonly isPodLost?: boolean | undefined;
    /** Times of the start; undefined if the start was complete before. */
    readonly startMs?: Partial<Readonly<Record<StartPhase, number>>> | undefined;
  };
  /** A document was made for the agent, whether that took it or not. */
  readonly documentMade: { readonly bytes: number; readonly isTaken: boolean };
  readonly podSent: {
    /** An agent that does not answer may have it. */
    readonly generation: number;
    readonly ephemeral: readonly string[];
    /** What the cell has for the pod. */
    readonly machine?: DesiredPod["machine"];
  };
  /** The agent has this generation of the pod. */
  readonly podHeld: { readonly generation: number };
  readonly dispatched: {
    readonly resolved: ResolvedPod;
    /** Of the document that was sent. */
    readonly generation: number;
    /** In how many milliseconds the agent needs fresh credentials. */
    readonly renewInMs?: number | undefined;
    /** Profiles of system calls that were sent as missing or wrong. */
    readonly missingProfiles: readonly DesiredSeccompProfile[];
  };
  /** The profiles that are missing or wrong now. */
  readonly profilesLooked: { readonly missing: readonly DesiredSeccompProfile[] };
  /** The API has taken the eviction of the pod. */
  readonly evicted: object;
  /** The evicted pod's owner has a ready pod in its place. */
  readonly replaced: object;
  readonly draining: object;
  readonly drained: { readonly graceSeconds: number; readonly isEmpty: boolean };
  readonly ended: { readonly podEnd: PodEnd };
  readonly endRecorded: object;
  readonly endAwaited: object;
  readonly endInApi: object;
  readonly savingLogs: object;
  readonly logsSaved: object;
  readonly cellDeleted: { readonly isLost: boolean };
  /** A step waits or has failed. */
  readonly waits: { readonly reason: string; readonly message: string };
  /** The status has to be published again although it is the same. */
  readonly publishAgain: object;
}

/** One change of kind `K`. */
export type CellChange<K extends keyof CellChanges = keyof CellChanges> = {
  readonly [P in K]: { readonly kind: P } & CellChanges[P];
}[K];
