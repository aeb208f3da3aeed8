import { build } from "esbuild";
import { errorText, KipError } from "@kip/base";

/**
 * The agent and all it imports as one CommonJS file for Node 24.
 *
 * CommonJS because it starts sooner; the agent therefore has no top-level `await` and no `import.meta`.
 *
 * @throws {KipError} `CELL_IMAGE_BUILD_FAILED`
 */
export async function bundleAgent(entry: string): Promise<Uint8Array> {
  try {
    const result = await build({
      entryPoints: [entry],
      bundle: true,
      write: false,
      platform: "node",
      format: "cjs",
      target: "node24",
      legalComments: "none",
      logLevel: "silent",
    });
    const [file] = result.outputFiles;
    if (file === undefined) throw new Error("esbuild gave no file");
    return file.contents;
  } catch (cause) {
    throw new KipError(
      "CELL_IMAGE_BUILD_FAILED",
      `Cannot bundle the agent "${entry}": ${errorText(cause)}`,
      { cause },
    );
  }
}
