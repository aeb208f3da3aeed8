import { waitingMount } from "@kip/base";
import type { AgentDependencies, LoadDependenciesOptions } from "./agent-dependencies.ts";
import { reserveHugePages } from "../admission/huge-pages.ts";
import { readCdiDevices } from "../devices/cdi-devices.ts";
import { systemDiskMeter } from "../disk/disk-meter.ts";
import { cacheFolder } from "../image/cache-folder.ts";
import { linkMaker } from "../network/pod-link.ts";
import { podRulesFactory, preparedTables } from "../network/pod-rules.ts";
import { kernelMounter } from "../volumes/mounter.ts";
import { growRootFileSystem } from "../volumes/root-disk.ts";
import { prepareVolumes } from "../volumes/pod-volumes.ts";

/** Loads crun, conmon and the image store. */
export async function loadRealDependencies(
  options: LoadDependenciesOptions,
): Promise<AgentDependencies> {
  const { directories, logger, clock, preparesRules = false } = options;
  const [oci, imaging, routing] = await Promise.all([
    import("@kip/oci-runtime"),
    import("@kip/oci-image"),
    import("@kip/service-routing"),
  ]);
  const rootfsMount = waitingMount();
  const cable = oci.cableName("pod");
  const prepared = preparesRules ? await preparedTables(routing, { cable, logger }) : undefined;
  const createNetworkRules = podRulesFactory(routing, { cable, prepared, logger });
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
    diskMeter: systemDiskMeter,
    reserveHugePages,
    growRootFileSystem,
    cdiDevices: async () => await readCdiDevices(logger),
    describeDevice: oci.describeDevice,
    volumesPrepared: volumes,
    prepared: Promise.all([sandbox, volumes, monitor, rootfsMount]).then(() => {}),
    createSandbox: async (wanted) => {
      const prepared = await sandbox;
      sandbox = Promise.resolve(undefined); // it is used up
      return await oci.createPodSandbox({ ...wanted, prepared });
    },
    removeSandbox: oci.removePodSandbox,
    setUpLink: linkMaker(routing, { cable, logger }),
    createNetworkRules,
    resolveUser: imaging.resolveUser,
  };
}
