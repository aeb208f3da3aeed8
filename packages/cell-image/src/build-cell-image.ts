import { KipError, type Logger } from "@kip/base";

/** Options of {@link buildCellImage}. */
export interface BuildCellImageOptions {
  /** Where images and their parts are kept; made when it is missing. */
  readonly cacheDir: string;
  /** The program that starts the agent: `apps/itzo/src/main.ts`. */
  readonly agentEntry: string;
  /** The Node binary put into the image. @default the one that runs this code */
  readonly nodeBinary?: string;
  /** Gets one sentence at the start of each step that takes more than a second. */
  readonly onProgress?: (message: string) => void;
  /** @default silent */
  readonly logger?: Logger;
  /** Stops the build; what is half built is removed. */
  readonly signal?: AbortSignal;
}

/** An image that machines can boot. Its files never change. */
export interface CellImage {
  /** 16 hexadecimal digits, made from everything that went into the image. */
  readonly id: string;
  /** Absolute path of the folder that holds the files below. */
  readonly dir: string;
  /** Absolute path of the kernel, for QEMU's `-kernel`. */
  readonly kernel: string;
  /** Absolute path of the initial file system, for QEMU's `-initrd`. */
  readonly initrd: string;
  /** Absolute path of the root disk: raw, sparse, to be used as a backing file. */
  readonly rootDisk: string;
  /** Logical size of the root disk, bytes. A machine's disk must not be smaller. */
  readonly rootDiskBytes: number;
  /** Kernel command line; the launcher appends its `kip.*` arguments. */
  readonly cmdline: string;
}

/**
 * Gives the image that cells boot; builds what is missing of it. As root only.
 *
 * @throws {KipError} `CELL_IMAGE_TOOLS_MISSING` when a program of the host is missing,
 * `CELL_IMAGE_BUILD_FAILED` when a step fails
 */
export async function buildCellImage(options: BuildCellImageOptions): Promise<CellImage> {
  throw new KipError(
    "CELL_IMAGE_BUILD_FAILED",
    `Cannot build cell image in "${options.cacheDir}": not built yet`,
  );
}
