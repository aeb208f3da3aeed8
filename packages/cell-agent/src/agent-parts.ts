import { waitingMount, type Clock, type Logger } from "@kip/base";
import type { ImageStore, ResolvedUser } from "@kip/oci-image";
import type { ContainerRuntime, PodSandbox, PodSandboxOptions } from "@kip/oci-runtime";
import type { AgentDirectories } from "./agent-directories.ts";
import { cacheFolder, type CacheFolder } from "./image/cache-folder.ts";
import { kernelMounter, type Mounter } from "./volumes/mounter.ts";
import { prepareVolumes } from "./volumes/pod-volumes.ts";

/** What the agent works with. Tests put their own in. */
export interface AgentParts {
  readonly runtime: ContainerRuntime;
  readonly images: ImageStore;
  /** @default no cache */
  readonly cacheFolder?: CacheFolder;
  readonly mounter: Mounter;
  createSandbox(options: PodSandboxOptions): Promise<PodSandbox>;
  removeSandbox(options: Pick<PodSandboxOptions, "runDir" | "name" | "logger">): Promise<void>;
  resolveUser(rootfs: string, user: string): Promise<ResolvedUser>;
  /** Resolves when all is prepared that can be before the pod comes. Never fails: a pod makes what is missing. */
  readonly prepared?: Promise<void>;
  /** The part of it that volumes wait for, so that nothing is made twice. */
  readonly volumesPrepared?: Promise<void>;
}

/**
 * Loads the real parts. Called after the agent listens: loading is what takes long at its start. What a
 * pod will need is prepared meanwhile and afterwards, see {@link AgentParts.prepared}.
 */
export async function loadParts(options: {
  readonly directories: AgentDirectories;
  readonly logger: Logger;
  readonly clock: Clock;
}): Promise<AgentParts> {
  const { directories, logger, clock } = options;
  const [oci, imaging] = await Promise.all([import("@kip/oci-runtime"), import("@kip/oci-image")]);
  const rootfsMount = waitingMount();
  const [runtime, images] = await Promise.all([
    oci.createRuntime({ runDir: directories.runtime, logger, clock }),
    imaging.openImageStore({
      root: directories.images,
      logger,
      clock,
      mount: async (...what) => await (await rootfsMount)(...what),
    }),
  ]);
  let sandbox = oci
    .preparePodSandbox({ runDir: directories.runtime, logger })
    .catch((error: unknown) => {
      logger.warn("Could not prepare a sandbox", { err: error });
      return undefined;
    });
  const volumes = prepareVolumes(directories, kernelMounter).catch((error: unknown) =>
    logger.warn("Could not prepare volumes", { err: error }),
  );
  const monitor = runtime
    .prepare(directories.logs)
    .catch((error: unknown) => logger.warn("Could not prepare a container", { err: error }));
  return {
    runtime,
    images,
    cacheFolder: cacheFolder({ logger, clock }),
    mounter: kernelMounter,
    volumesPrepared: volumes,
    prepared: Promise.all([sandbox, volumes, monitor, rootfsMount]).then(() => {}),
    createSandbox: async (wanted) => {
      const prepared = await sandbox;
      sandbox = Promise.resolve(undefined); // it is used up
      return await oci.createPodSandbox({ ...wanted, ...(prepared && { prepared }) });
    },
    removeSandbox: oci.removePodSandbox,
    resolveUser: imaging.resolveUser,
  };
}
