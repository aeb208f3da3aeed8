import { access, constants } from "node:fs/promises";
import path from "node:path";
import { CellImageError } from "./errors.ts";

/** Program → the Debian package that contains it. */
const packages = {
  mmdebstrap: "mmdebstrap",
  mke2fs: "e2fsprogs",
  debugfs: "e2fsprogs",
  "dpkg-deb": "dpkg",
  "apt-get": "apt",
  setpriv: "util-linux",
  unshare: "util-linux",
  flock: "util-linux",
  tar: "tar",
} as const;

export type HostTool = keyof typeof packages;

const searchPath = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/**
 * Checks, before a build starts, that this process may build and that the programs are installed.
 *
 * @throws {CellImageError} `CELL_IMAGE_NOT_ROOT`; `CELL_IMAGE_TOOLS_MISSING`, with a remedy that names the packages
 */
export async function requireHostTools(tools: readonly HostTool[]): Promise<void> {
  if (process.getuid?.() !== 0) {
    throw new CellImageError("CELL_IMAGE_NOT_ROOT", "Cannot build the cell image: not root", {
      remedy: "Run it with sudo: files of an image belong to root",
    });
  }
  const missing: HostTool[] = [];
  for (const tool of tools) if (!(await isInstalled(tool))) missing.push(tool);
  if (missing.length === 0) return;
  const names = [...new Set(missing.map((tool) => packages[tool]))].join(" ");
  throw new CellImageError(
    "CELL_IMAGE_TOOLS_MISSING",
    `Cannot build the cell image: not installed: ${missing.join(", ")}`,
    { remedy: `Run "apt-get install ${names}"` },
  );
}

async function isInstalled(tool: string): Promise<boolean> {
  const found = await Promise.allSettled(
    searchPath.map(async (folder) => await access(path.join(folder, tool), constants.X_OK)),
  );
  return found.some((result) => result.status === "fulfilled");
}
