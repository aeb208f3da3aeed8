import fs from "node:fs";
import { decodeDesiredPod, type DesiredPod, type PodEventReport } from "@kip/agent-api";
import type { AgentDirectories } from "./agent-directories.ts";
import { readJson, writeJson } from "./json-file.ts";
import type { SavedContainer } from "../state/container-record.ts";

/** What is remembered about the pod across lives of the agent, besides the desired pod. */
export interface SavedPod {
  readonly startTimeMs: number;
  /** When the pod's grace period ends, if it is to end. */
  readonly endMs?: number;
  readonly reason?: string;
  readonly message?: string;
  /** Everything the pod had is freed. */
  readonly isReleased: boolean;
  readonly timingsMs: Readonly<Record<string, number>>;
  readonly events: readonly PodEventReport[];
  readonly containers: readonly SavedContainer[];
}

/**
 * Files for the desired pod and its state, readable by root only and on a tmpfs. Written before the
 * agent acts, and at once: they are small, and an order that cannot be broken is worth more here
 * than not to wait for a tmpfs.
 */
export class PodStore {
  readonly #directories: Pick<AgentDirectories, "run" | "desiredPod" | "podState">;

  constructor(directories: Pick<AgentDirectories, "run" | "desiredPod" | "podState">) {
    this.#directories = directories;
    fs.mkdirSync(directories.run, { recursive: true, mode: 0o700 });
  }

  /** The pod that an earlier life of the agent had; undefined if there was none. */
  load(): { readonly pod: DesiredPod; readonly state: SavedPod } | undefined {
    const pod = readJson(this.#directories.desiredPod);
    const state = readJson(this.#directories.podState);
    if (pod === undefined || state === undefined) return undefined;
    return { pod: decodeDesiredPod(pod, "pod"), state: state as SavedPod }; // our own file
  }

  savePod(pod: DesiredPod): void {
    writeJson(this.#directories.desiredPod, pod);
  }

  saveState(state: SavedPod): void {
    writeJson(this.#directories.podState, state);
  }
}
