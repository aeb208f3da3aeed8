// Makes tosi as a program in one file, for machines without this repository; it needs Node 24 and nothing else.
//   node tools/pack-tosi.ts FILE
import { chmodSync } from "node:fs";
import path from "node:path";
import { runCommand } from "@kip/base";

const root = path.join(import.meta.dirname, "..");

/**
 * Packs tosi into a file.
 *
 * @param interpreter what starts its Node
 */
export async function packTosi(file: string, interpreter = "/usr/bin/env -S node"): Promise<void> {
  await runCommand(path.join(root, "node_modules/.bin/esbuild"), [
    path.join(root, "apps/tosi/src/main.ts"),
    `--outfile=${file}`,
    "--bundle",
    "--platform=node",
    "--target=node24",
    // No module: for those, Node reads every export of its own modules and loads what is lazy in them.
    "--format=cjs",
    // A small young generation: the buffers of a pull are collected early, which saves some 20 MiB.
    `--banner:js=#!${interpreter} --max-semi-space-size=1`,
    "--log-level=error",
  ]);
  chmodSync(file, 0o755);
}

if (import.meta.main) {
  const [file] = process.argv.slice(2);
  if (file === undefined) throw new Error("node tools/pack-tosi.ts FILE");
  await packTosi(path.resolve(file));
}
