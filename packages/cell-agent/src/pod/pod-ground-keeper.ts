import type { DesiredPod } from "@kip/agent-api";
import { errorText, hasCode, type Clock, type Logger } from "@kip/base";
import type { AgentDirectories } from "../agent-directories.ts";
import type { AgentParts } from "../agent-parts.ts";
import type { PodGround } from "../container/start-container.ts";
import { makeVolumes, removeVolumes } from "../volumes/pod-volumes.ts";
import type { PodEvents } from "./pod-events.ts";
import { writePodFiles } from "./pod-files.ts";

/** What a pod's ground is made with. */
export interface GroundOptions {
  readonly parts: AgentParts;
  readonly directories: AgentDirectories;
  readonly events: PodEvents;
  readonly clock: Clock;
  readonly logger: Logger;
}

const firstRetryMs = 500;
const maxRetryMs = 122_000;

/**
 * Makes, refreshes and frees what the containers of a pod stand on: namespaces, network, volumes. One after the other, in the
 * order of the calls: else files of an older pod could replace those of a newer one, or come back after the end.
 */
export class GroundKeeper {
  /** Present once it is made. */
  ground: PodGround | undefined;
  isUnderway = false;
  /** After a failure, not to be tried again before. */
  retryAtMs = 0;
  #failures = 0;
  #work: Promise<void> = Promise.resolve();

  /** Makes what is missing. Failures become events and a time for the next attempt. */
  async prepare(pod: DesiredPod, options: GroundOptions): Promise<void> {
    this.isUnderway = true;
    await this.#inTurn(async () => await this.#prepare(pod, options));
  }

  /** Brings files of the pod and its volumes up to date with a newer pod. */
  async refresh(pod: DesiredPod, options: GroundOptions): Promise<void> {
    await this.#inTurn(async () => await this.#refresh(pod, options));
  }

  /** Frees everything, also what an earlier life of the agent has made. */
  async release(pod: DesiredPod, options: GroundOptions): Promise<void> {
    this.isUnderway = true;
    await this.#inTurn(async () => await this.#release(pod, options));
  }

  /** Runs work that does not fail. */
  async #inTurn(work: () => Promise<void>): Promise<void> {
    this.#work = this.#work.then(work);
    await this.#work;
  }

  async #prepare(pod: DesiredPod, options: GroundOptions): Promise<void> {
    const { parts, directories, events, clock, logger } = options;
    try {
      const podFiles = writePodFiles(directories.podFiles, pod);
      const [sandbox, volumes] = await Promise.all([
        parts.createSandbox({
          runDir: directories.runtime,
          hostname: pod.hostname,
          ...(!pod.hostNetwork && pod.podIp !== undefined && { podIp: pod.podIp }),
          ...(pod.shareProcessNamespace !== undefined && {
            shareProcessNamespace: pod.shareProcessNamespace,
          }),
          logger,
        }),
        volumesOf(pod, options),
      ]);
      this.ground = { sandbox, volumes, podFiles };
      this.#failures = 0;
    } catch (error) {
      const isVolume = hasCode(error, "AGENT_VOLUME_FAILED");
      const text = errorText(error);
      if (isVolume) events.warning("FailedMount", text);
      else events.warning("FailedCreatePodSandBox", `Failed to create pod sandbox: ${text}`);
      logger.warn("Could not prepare the pod", { podUid: pod.uid, err: error });
      this.retryAtMs = clock.now() + Math.min(maxRetryMs, firstRetryMs * 2 ** this.#failures);
      this.#failures += 1;
    } finally {
      this.isUnderway = false;
    }
  }

  async #refresh(pod: DesiredPod, options: GroundOptions): Promise<void> {
    if (!this.ground) return;
    const { parts, directories } = options;
    try {
      const volumes = await makeVolumes(pod, directories, parts.mounter);
      const podFiles = writePodFiles(directories.podFiles, pod);
      this.ground = { ...this.ground, volumes, podFiles };
    } catch (error) {
      options.events.warning("FailedMount", errorText(error));
    }
  }

  async #release(pod: DesiredPod, options: GroundOptions): Promise<void> {
    const { parts, directories, logger } = options;
    try {
      await removeVolumes(pod, directories, parts.mounter);
      await parts.removeSandbox({ runDir: directories.runtime, logger });
    } catch (error) {
      // The machine goes away with the pod; what is left is no reason to keep either.
      logger.error("Could not free all of the pod", { podUid: pod.uid, err: error });
    } finally {
      this.ground = undefined;
      this.isUnderway = false;
    }
  }
}

async function volumesOf(
  pod: DesiredPod,
  { parts, directories }: GroundOptions,
): Promise<ReadonlyMap<string, string>> {
  await parts.volumesPrepared;
  return await makeVolumes(pod, directories, parts.mounter);
}
