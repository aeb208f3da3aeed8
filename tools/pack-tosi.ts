// Makes tosi as a program in one file, for machines without this repository; it needs Node 24 and nothing else.
//   node tools/pack-tosi.ts FILE
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { Script } from "node:vm";
import { runCommand } from "@kip/base";

const root = path.join(import.meta.dirname, "..");

/** As set by `apps/tosi/bin/tosi`. */
const environment = "MALLOC_ARENA_MAX=2";
const options = "--max-semi-space-size=1";

/** Loaded on first use, which saves 5 ms if the image is already in the store. */
const lazy = ["node:fs/promises", "node:stream/promises", "node:child_process"];

/**
 * Packs tosi into a file.
 *
 * @param node the Node program that runs it
 */
export async function packTosi(file: string, node = "node"): Promise<void> {
  await runCommand(path.join(root, "node_modules/.bin/esbuild"), [
    path.join(root, "apps/tosi/src/main.ts"),
    `--outfile=${file}`,
    "--bundle",
    "--platform=node",
    "--target=node24",
    // Not an ES module: for these, Node reads all exports of its own modules, which loads the lazy ones.
    "--format=cjs",
    "--minify-whitespace",
    "--minify-syntax",
    "--log-level=error",
  ]);
  let text = readFileSync(file, "utf8");
  for (const module of lazy) {
    const load = `require("${module}")`;
    text = text.replaceAll(`=${load}`, `=new Proxy({},{get:(_,name)=>${load}[name]})`);
  }
  writeFileSync(file, `#!/usr/bin/env -S ${environment} ${node} ${options}\n${compiled(text)}`);
  chmodSync(file, 0o755);
}

/**
 * A program that contains V8's compiled code. Reading that takes some 3 ms less CPU time than compiling. Another version of
 * Node ignores it and compiles the text.
 */
function compiled(text: string): string {
  const source = `(function (exports, require, module, __filename, __dirname) {${text}\n})`;
  const code = new Script(source).createCachedData().toString("base64");
  return `const { Script } = require("node:vm");
const cachedData = Buffer.from("${code}", "base64");
const program = new Script(${JSON.stringify(source)}, { filename: __filename, cachedData });
program.runInThisContext()(exports, require, module, __filename, __dirname);
`;
}

if (import.meta.main) {
  const [file] = process.argv.slice(2);
  if (file === undefined) throw new Error("node tools/pack-tosi.ts FILE");
  await packTosi(path.resolve(file));
}
