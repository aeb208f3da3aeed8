import type { DesiredPod } from "@kip/agent-api";
import { errorText, hasCode, SerialQueue, type Clock, type Logger } from "@kip/base";
import type { AgentDirectories } from "../storage/agent-directories.ts";
import type { AgentDependencies } from "../dependencies/agent-dependencies.ts";
import type { PodResources } from "../container/start-container.ts";
import { makeVolumes, removeVolumes } from "../volumes/pod-volumes.ts";
import type { PodEvents } from "../state/pod-events.ts";
import { writePodFiles } from "../volumes/pod-files.ts";

/** Options of {@link PodResourceManager}'s methods. */
export interface PodResourceOptions {
  readonly dependencies: AgentDependencies;
  readonly directories: AgentDirectories;
  readonly events: PodEvents;
  readonly clock: Clock;
  readonly logger: Logger;
}

const firstRetryMs = 500;
const maxRetryMs = 122_000;

/**
 * Makes, refreshes and frees what the containers of a pod share: namespaces, network, volumes. One after the other, in the
 * order of the calls: else files of an older pod could replace those of a newer one, or come back after the end.
 */
export class PodResourceManager {
  /** Present once it is made. */
  resources: PodResources | undefined;
  isUnderway = false;
  /** After a failure, not to be tried again before. */
  retryAtMs = 0;
  #failures = 0;
  readonly #queue = new SerialQueue();

  /** Makes what is missing. Failures become events and a time for the next attempt. */
  async prepare(pod: DesiredPod, options: PodResourceOptions): Promise<void> {
    this.isUnderway = true;
    await this.#queue.run(async () => await this.#prepare(pod, options));
  }

  /** Brings files of the pod and its volumes up to date with a newer pod. */
  async refresh(pod: DesiredPod, options: PodResourceOptions): Promise<void> {
    await this.#queue.run(async () => await this.#refresh(pod, options));
  }

  /** Frees everything, also what an earlier life of the agent has made. */
  async release(pod: DesiredPod, options: PodResourceOptions): Promise<void> {
    this.isUnderway = true;
    await this.#queue.run(async () => await this.#release(pod, options));
  }

  async #prepare(pod: DesiredPod, options: PodResourceOptions): Promise<void> {
    const { dependencies, directories, events, clock, logger } = options;
    try {
      const podFiles = writePodFiles(directories.podFiles, pod);
      const [sandbox, volumes] = await Promise.all([
        dependencies.createSandbox({
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
      this.resources = { sandbox, volumes, podFiles };
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

  async #refresh(pod: DesiredPod, options: PodResourceOptions): Promise<void> {
    if (!this.resources) return;
    const { dependencies, directories } = options;
    try {
      const volumes = await makeVolumes(pod, directories, dependencies.mounter);
      const podFiles = writePodFiles(directories.podFiles, pod);
      this.resources = { ...this.resources, volumes, podFiles };
    } catch (error) {
      options.events.warning("FailedMount", errorText(error));
    }
  }

  async #release(pod: DesiredPod, options: PodResourceOptions): Promise<void> {
    const { dependencies, directories, logger } = options;
    try {
      await removeVolumes(pod, directories, dependencies.mounter);
      await dependencies.removeSandbox({ runDir: directories.runtime, logger });
    } catch (error) {
      // The machine ends with the pod, so leftovers must not keep the pod from ending.
      logger.error("Could not free all resources of the pod", { podUid: pod.uid, err: error });
    } finally {
      this.resources = undefined;
      this.isUnderway = false;
    }
  }
}

async function volumesOf(
  pod: DesiredPod,
  { dependencies, directories }: PodResourceOptions,
): Promise<ReadonlyMap<string, string>> {
  await dependencies.volumesPrepared;
  return await makeVolumes(pod, directories, dependencies.mounter);
}
