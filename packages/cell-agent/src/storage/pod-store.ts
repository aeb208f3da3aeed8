import fs from "node:fs";
import { decodeDesiredPod, type DesiredPod, type PodEventReport } from "@kip/agent-api";
import type { AgentDirectories } from "./agent-directories.ts";
import { readJson, writeJson } from "./json-file.ts";
import type { Allocation } from "../state/allocation.ts";
import type { SavedContainer } from "../state/container-record.ts";
import type { GivenDevices } from "../state/pod-state.ts";

/** What is saved about the pod for the next process of the agent, besides the desired pod. */
export interface SavedPod {
  readonly startTimeMs: number;
  /** When the pod's grace period ends, if it should end. */
  readonly endMs?: number | undefined;
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
  readonly isDisruption?: boolean | undefined;
  /** Whether everything of the pod was released. */
  readonly isReleased: boolean;
  /** Whether its rules for Services and policies are in the kernel. */
  readonly isNetworkInForce?: boolean | undefined;
  readonly timingsMs: Readonly<Record<string, number>>;
  readonly events: readonly PodEventReport[];
  /** Absent in what older agents have saved. */
  readonly allocation?: Allocation | undefined;
  /** Absent before a container that requests devices has started. */
  readonly devices?: GivenDevices | undefined;
  readonly containers: readonly SavedContainer[];
}

/**
 * Files for the desired pod and its state, on a tmpfs and only readable by root. They are written before the agent acts, and
 * synchronously: they are small, and a guaranteed order matters more here than not blocking on a tmpfs.
 */
export class PodStore {
  readonly #directories: Pick<AgentDirectories, "run" | "desiredPod" | "podState">;
  #last: SavedPod | undefined;

  constructor(directories: Pick<AgentDirectories, "run" | "desiredPod" | "podState">) {
    this.#directories = directories;
    fs.mkdirSync(directories.run, { recursive: true, mode: 0o700 });
  }

  /** The pod of an earlier process of the agent. Undefined if it had none. */
  load(): { readonly pod: DesiredPod; readonly state: SavedPod } | undefined {
    const pod = readJson(this.#directories.desiredPod);
    const state = readJson(this.#directories.podState);
    if (pod === undefined || state === undefined) return undefined;
    return { pod: decodeDesiredPod(pod, "pod"), state: state as SavedPod }; // our own file
  }

  savePod(pod: DesiredPod): void {
    writeJson(this.#directories.desiredPod, pod);
  }

  /** Writes nothing if all parts are the same objects as last time. */
  saveState(state: SavedPod): void {
    if (this.#last && isSame(this.#last, state)) return;
    writeJson(this.#directories.podState, state);
    this.#last = state;
  }
}

/** Compares by identity, because parts are never changed, only replaced. */
function isSame(last: SavedPod, { containers, ...state }: SavedPod): boolean {
  const keys = Object.keys(state) as readonly (keyof typeof state)[];
  if (keys.some((key) => last[key] !== state[key])) return false;
  if (containers.length !== last.containers.length) return false;
  return containers.every((container, index) => container === last.containers[index]);
}
