import type { Clock, Logger } from "@kip/base";
import type { ImageStore, ResolvedUser } from "@kip/oci-image";
import type { ContainerRuntime, PodSandbox, PodSandboxOptions } from "@kip/oci-runtime";
import type { AgentDirectories } from "./agent-directories.ts";
import { kernelMounter, type Mounter } from "./volumes/mounter.ts";

/** What the agent works with. Tests put their own in. */
export interface AgentParts {
  readonly runtime: ContainerRuntime;
  readonly images: ImageStore;
  readonly mounter: Mounter;
  createSandbox(options: PodSandboxOptions): Promise<PodSandbox>;
  removeSandbox(options: Pick<PodSandboxOptions, "runDir" | "name" | "logger">): Promise<void>;
  resolveUser(rootfs: string, user: string): Promise<ResolvedUser>;
}

/** Loads the real parts. Called after the agent listens: loading is what takes long at its start. */
export async function loadParts(options: {
  readonly directories: AgentDirectories;
  readonly logger: Logger;
  readonly clock: Clock;
}): Promise<AgentParts> {
  const { directories, logger, clock } = options;
  const [oci, imaging] = await Promise.all([import("@kip/oci-runtime"), import("@kip/oci-image")]);
  const [runtime, images] = await Promise.all([
    oci.createRuntime({ runDir: directories.runtime, logger, clock }),
    imaging.openImageStore({ root: directories.images, logger, clock }),
  ]);
  return {
    runtime,
    images,
    mounter: kernelMounter,
    createSandbox: oci.createPodSandbox,
    removeSandbox: oci.removePodSandbox,
    resolveUser: imaging.resolveUser,
  };
}
