import path from "node:path";
import { silentLogger, type OptionValues, systemClock } from "@kip/base";
import { buildCellImage, buildDemoImage, type CellImage } from "@kip/cell-image";
import { findRelease, obtainBinaries, obtainCoredns, ReleaseSites } from "@kip/control-plane";
import { architectures } from "../../cli/architectures.ts";
import { startProgress } from "../../cli/task-progress.ts";
import { isEc2 } from "../cluster/cloud-choice.ts";
import type { LocalLayout } from "../cluster/layout.ts";
import { KipError } from "../../errors.ts";

/** The programs and images of a local cluster. */
export interface ClusterParts {
  /** Folder of the Kubernetes programs. */
  readonly binariesDir: string;
  /** Path of CoreDNS. */
  readonly coredns: string;
  readonly imageId: string;
  /** Images for cells with another architecture than this computer's. */
  readonly otherImageIds: readonly string[];
  /** OCI layout folder of the demo image. */
  readonly demoLayout: string;
}

/** Obtains programs and images concurrently, from the cache or by downloading or building them. SIGINT and SIGTERM stop it. */
export async function obtainParts(
  options: OptionValues,
  layout: LocalLayout,
): Promise<ClusterParts> {
  const stop = new AbortController();
  const onInterrupt = (): void => stop.abort(new Error("Interrupted"));
  process.once("SIGINT", onInterrupt).once("SIGTERM", onInterrupt);
  const { cacheDir } = layout;
  const release = findRelease(options.required("kubernetes"));
  const userDir = options.text("binaries-dir");
  const sites = new ReleaseSites({ env: process.env });
  const common = { cacheDir, logger: silentLogger, signal: stop.signal };
  const agentEntry = path.join(import.meta.dirname, "../../../../itzo/src/main.ts");
  const refresh = options.isSet("refresh-image");
  await using progress = startProgress({ output: process.stdout, clock: systemClock });
  const { run } = progress;
  try {
    const processors = architectures(options);
    const [binaries, coredns, images, demo] = await Promise.all([
      run("Kubernetes", async (onProgress) =>
        obtainBinaries({ ...common, onProgress, release, userDir, sites }),
      ),
      run("CoreDNS", async (onProgress) =>
        obtainCoredns({ ...common, onProgress, userDir, sites }),
      ),
      run("Cell image", async (onProgress) => {
        const built: CellImage[] = [];
        for (const architecture of processors)
          built.push(
            await buildCellImage({ ...common, onProgress, refresh, agentEntry, architecture }),
          );
        return built.map(({ id }) => id);
      }),
      run("Demo image", async (onProgress) =>
        buildDemoImage({ ...common, onProgress, architectures: processors }),
      ),
      isEc2(options)
        ? run("moto", async (onProgress) => prepareMoto(layout, onProgress))
        : undefined,
    ]);
    const [imageId = "", ...otherImageIds] = images;
    return {
      binariesDir: binaries.directory,
      coredns,
      imageId,
      otherImageIds,
      demoLayout: demo.layoutDir,
    };
  } catch (error) {
    stop.abort(error);
    throw error;
  } finally {
    process.removeListener("SIGINT", onInterrupt).removeListener("SIGTERM", onInterrupt);
  }
}

/** @throws {KipError} `LOCAL_CLUSTER_FAILED` */
async function prepareMoto(layout: LocalLayout, onProgress: (text: string) => void): Promise<void> {
  const { installMoto, whyNoMoto } = await import("@kip/cloud-aws/emulator");
  const reason = await whyNoMoto();
  if (reason !== undefined)
    throw new KipError("LOCAL_CLUSTER_FAILED", `Cannot imitate EC2: ${reason}`, {
      remedy: "Install it, or leave out --cloud=ec2-local",
    });
  await installMoto(layout.motoDir, () => onProgress("Installing moto, which imitates EC2"));
}
