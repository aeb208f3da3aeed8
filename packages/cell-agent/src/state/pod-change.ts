import type { DesiredPod, ResourceAmounts, TerminatedReport } from "@kip/agent-api";
import type { StoredImage } from "@kip/oci-image";
import type { ContainerExit } from "@kip/oci-runtime";
import type { ContainerRun, KillCause, StopReason } from "./container-record.ts";
import type { NewEvent } from "./pod-events.ts";
import type { GivenDevices, PodResources, PodState } from "./pod-state.ts";

/** The state of a container that an earlier process of the agent has left. */
export type FoundContainer =
  | { readonly kind: "running"; readonly startedAtMs: number }
  | { readonly kind: "exited"; readonly exit: ContainerExit };

/** Something that happened to the pod. `nowMs` is the time of day, `monotonicMs` that of the monotonic clock. */
export type PodChange =
  /** Kip sent the pod, or a newer version of it. */
  | {
      readonly kind: "put";
      readonly pod: DesiredPod;
      readonly nowMs: number;
      readonly monotonicMs: number;
    }
  /** The agent has started and has checked the existing containers. */
  | {
      readonly kind: "takenOver";
      readonly found: ReadonlyMap<string, FoundContainer>;
      /** Earlier runs that have left something which an earlier process of the agent was about to remove. @default none */
      readonly leftovers?: readonly string[];
    }
  /** The pod should end. */
  | {
      readonly kind: "end";
      readonly graceMs: number;
      readonly nowMs: number;
      readonly reason?: PodState["reason"];
    }
  | { readonly kind: "event"; readonly event: NewEvent; readonly nowMs: number }
  /** Namespaces, network and volumes were created or updated. */
  | { readonly kind: "prepared"; readonly resources: PodResources }
  | { readonly kind: "prepareFailed" }
  | { readonly kind: "devicesGiven"; readonly devices: GivenDevices }
  /** The pod's cgroup was given these limits. */
  | { readonly kind: "podLimited"; readonly limits: ResourceAmounts; readonly nowMs: number }
  | { readonly kind: "resizeFailed"; readonly message: string; readonly nowMs: number }
  /** A change of the cluster's network is in force. */
  | { readonly kind: "networkApplied" }
  | { readonly kind: "released" }
  | { readonly kind: "discarded"; readonly runId: string }
  /** The runtime reports that a container's process has ended; `noteExit` follows. */
  | { readonly kind: "exited"; readonly exit: ContainerExit }
  | ContainerEnded
  | ContainerChange;

/** Something that happened to one container and does not affect the rest of the pod. */
export type ContainerChange = { readonly container: string } & (
  | { readonly kind: "pullBegun" }
  | {
      readonly kind: "imageReady";
      /** As named in the pod. */
      readonly name: string;
      readonly image: StoredImage;
      /** Images that the container mounts, by volume name. */
      readonly volumes: ReadonlyMap<string, StoredImage>;
      readonly attempt: number;
      readonly timingsMs: { readonly unpack: number } | undefined;
      readonly monotonicMs: number;
    }
  | {
      readonly kind: "imageFailed";
      readonly name: string;
      /** The image that failed, if it is a volume's and not the container's. */
      readonly volumeImage?: string | undefined;
      readonly reason: string;
      readonly message: string;
      readonly nowMs: number;
    }
  /** `ImagePullBackOff` was reported. */
  | { readonly kind: "held"; readonly message: string }
  /** A run of the container is about to be created. This is saved before. */
  | { readonly kind: "runBegun"; readonly run: ContainerRun }
  /** The run was created and is waiting to be started. */
  | { readonly kind: "created"; readonly run: ContainerRun }
  /** Its process was started. It may have ended since. */
  | {
      readonly kind: "started";
      readonly run: ContainerRun;
      readonly startedAtMs: number;
      readonly monotonicMs: number;
    }
  /** The running container was given these resources. */
  | {
      readonly kind: "resized";
      readonly runId: string;
      readonly resources: ResourceAmounts;
      readonly nowMs: number;
    }
  /** The container could not be created, which says nothing about its program. */
  | {
      readonly kind: "createFailed";
      readonly reason: string;
      readonly message: string;
      readonly nowMs: number;
    }
  /** The step `start` has ended, successfully or not. */
  | { readonly kind: "startOver"; readonly isWatched: boolean }
  | ({ readonly kind: "stopBegun" } & StopReason)
  | { readonly kind: "stopOver" }
  | { readonly kind: "startupPassed" }
  | { readonly kind: "readiness"; readonly isReady: boolean }
  /** A hook or probe failed: the container must be stopped. */
  | { readonly kind: "killWanted"; readonly cause: KillCause }
);

/** A run of a container is over. */
export interface ContainerEnded {
  readonly kind: "ended";
  readonly container: string;
  readonly runId: string;
  readonly exit: TerminatedReport;
  readonly endedAtMs: number;
  readonly nowMs: number;
  /** Why the container is waiting, unless a back-off has a better message. */
  readonly waiting?: { readonly reason: string; readonly message: string } | undefined;
  /** Whether something of the run has to be removed by the step `discard`. */
  readonly needsDiscard: boolean;
}
