// Makes tosi as a program in one file, for machines without this repository; it needs Node 24 and nothing else.
//   node tools/pack-tosi.ts FILE
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { runCommand } from "@kip/base";

const root = path.join(import.meta.dirname, "..");

/** As `apps/tosi/bin/tosi` has it. */
const options = "MALLOC_ARENA_MAX=2";

/** Loaded at their first use: a pull of an image that is there takes 5 ms less. */
const lazy = ["node:fs/promises", "node:stream/promises", "node:child_process"];

/**
 * Packs tosi into a file.
 *
 * @param node the Node that it runs on
 */
export async function packTosi(file: string, node = "node"): Promise<void> {
  await runCommand(path.join(root, "node_modules/.bin/esbuild"), [
    path.join(root, "apps/tosi/src/main.ts"),
    `--outfile=${file}`,
    "--bundle",
    "--platform=node",
    "--target=node24",
    // No module: for those, Node reads every export of its own modules and loads what is lazy in them.
    "--format=cjs",
    "--minify-whitespace",
    "--minify-syntax",
    `--banner:js=#!/usr/bin/env -S ${options} ${node} --max-semi-space-size=1`,
    "--log-level=error",
  ]);
  let text = readFileSync(file, "utf8");
  for (const module of lazy) {
    const load = `require("${module}")`;
    text = text.replaceAll(`=${load}`, `=new Proxy({},{get:(_,name)=>${load}[name]})`);
  }
  writeFileSync(file, text);
  chmodSync(file, 0o755);
}

if (import.meta.main) {
  const [file] = process.argv.slice(2);
  if (file === undefined) throw new Error("node tools/pack-tosi.ts FILE");
  await packTosi(path.resolve(file));
}
