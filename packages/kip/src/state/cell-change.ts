import type { AgentClient, DesiredPod, DesiredSeccompProfile, PodReport } from "@kip/agent-api";
import type { Instance } from "@kip/cloud";
import type { Pod } from "@kip/k8s-types";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import type { InstanceState, Interruption } from "./cell-state.ts";
import type { Cell, CellStatus, EndedContainer, PodEnd, StandbyCell, StartPhase } from "./cell.ts";

/** The changes of the state of a pod and its cell, by kind. */
export interface CellChanges {
  // Reported by the virtual kubelet and the API.
  /** The pod should run, in this form. */
  readonly applied: { readonly resolved: ResolvedPod };
  /** The pod is already on its cell, in a version that is not known yet. */
  readonly resumed: { readonly pod: Pod };
  /** The pod should stop. */
  readonly removed: { readonly graceSeconds: number; readonly pod?: Pod | undefined };
  /** The pod is terminal in the API. */
  readonly finished: { readonly pod?: Pod | undefined };
  readonly cellSeen: { readonly cell: Cell | StandbyCell };
  /** The Cell is gone or will be. Kip requested its deletion, or another client deleted it without its finalizer. */
  readonly cellGone: { readonly uid: string };

  // Reported by the cloud and the agent.
  readonly instanceEnded: { readonly token: string };
  /** `leftMs` is the time until the instance ends, milliseconds. */
  readonly interrupted: {
    readonly notice: Pick<Interruption, "instanceId" | "endsAt">;
    readonly leftMs: number;
  };
  /** The cloud has reported whether the instance is running. */
  readonly cloudAsked: { readonly isRunning: boolean };
  readonly reported: { readonly report: PodReport };
  readonly agentLost: object;
  /** Whether the agent counts as unreachable. If so, the pod is not ready. */
  readonly reach: { readonly isOutOfReach: boolean };

  // Reported by steps.
  readonly cellCreated: { readonly cell: Cell; readonly apiMs: number };
  /** Facts about containers on a cell that was lost while kip was not running. */
  readonly carried: {
    readonly restartCounts: Readonly<Record<string, number>>;
    readonly ended: Readonly<Record<string, EndedContainer>>;
  };
  readonly machine: {
    readonly state: InstanceState;
    /** Whether the cloud was asked to start it and may have done so. @default as before */
    readonly isAsked?: true;
  };
  readonly machineSeen: { readonly instance: Instance };
  /** The cloud has no capacity for the instance. */
  readonly refused: object;
  readonly launched: { readonly instance: Instance; readonly cloudMs: number };
  readonly running: { readonly instance: Instance; readonly cloudMs: number };
  /** The instance has these tags in the cloud. */
  readonly tagged: { readonly tags: Instance["tags"] };
  readonly terminated: object;
  readonly cellStatus: { readonly status: Partial<CellStatus> };
  readonly dialing: object;
  readonly connected: {
    readonly client: AgentClient;
    /** Generation of the pod that the agent has. */
    readonly generation?: number | undefined;
    /** The agent's first report, so that kip knows of an ended pod before it sends the agent anything. */
    readonly report?: PodReport | undefined;
    readonly isPodLost?: boolean | undefined;
    /** Times of the start. Undefined if the start was complete before. */
    readonly startMs?: Partial<Readonly<Record<StartPhase, number>>> | undefined;
  };
  /** A document was made for the agent, whether or not the agent accepted it. */
  readonly documentMade: { readonly bytes: number; readonly isTaken: boolean };
  readonly podSent: {
    /** The generation that the agent may have, if it does not respond. */
    readonly generation: number;
    readonly ephemeral: readonly string[];
    /** The cell's resources for the pod. */
    readonly machine?: DesiredPod["machine"];
  };
  /** The agent has this generation of the pod. */
  readonly podHeld: { readonly generation: number };
  readonly dispatched: {
    readonly resolved: ResolvedPod;
    /** Generation of the document that was sent. */
    readonly generation: number;
    /** Milliseconds until the agent needs fresh credentials. */
    readonly renewInMs?: number | undefined;
    /** Seccomp profiles that were sent as missing or invalid. */
    readonly missingProfiles: readonly DesiredSeccompProfile[];
  };
  /** The profiles that are now missing or invalid. */
  readonly profilesLooked: { readonly missing: readonly DesiredSeccompProfile[] };
  /** The API has accepted the pod's eviction. */
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
  /** A step is waiting or has failed. With `isTurn`, it only waits until others are done: nothing is wrong. */
  readonly waits: {
    readonly reason: string;
    readonly message: string;
    readonly isTurn?: boolean | undefined;
  };
  /** The status has to be published again although it has not changed. */
  readonly publishAgain: object;
}

/** One change of kind `K`. */
export type CellChange<K extends keyof CellChanges = keyof CellChanges> = {
  readonly [P in K]: { readonly kind: P } & CellChanges[P];
}[K];
