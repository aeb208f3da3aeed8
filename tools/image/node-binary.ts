// Node for the image, from the npm package that the repository pins.
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { runCommand } from "@kip/base";
import type { Architecture, ImageRecipe } from "./recipe.ts";

/**
 * Gives a folder with `bin/node` and its `LICENSE`; npm checks the package's hash against the recipe's.
 *
 * @throws {CommandError} if it cannot be fetched
 */
export async function fetchNode(
  recipe: ImageRecipe,
  architecture: Architecture,
  cacheDir: string,
): Promise<string> {
  const { package: name, integrity } = recipe.node[architecture];
  const key = Buffer.from(integrity.replace(/^sha512-/, ""), "base64").toString("hex");
  const target = path.join(cacheDir, "node", `${name}-${recipe.node.version}-${key.slice(0, 16)}`);
  if (existsSync(target)) return target;
  const work = `${target}.${process.pid}`;
  mkdirSync(work, { recursive: true });
  try {
    const spec = `${name}@${recipe.node.version}`;
    const pack = ["pack", spec, "--json", "--pack-destination", work];
    const { stdout } = await runCommand("npm", pack, { env: process.env });
    const [packed] = JSON.parse(stdout) as { integrity: string; filename: string }[]; // npm's own
    if (packed?.integrity !== integrity)
      throw new Error(`${spec} is not the package of deploy/images/kip.json: ${packed?.integrity}`);
    const files = ["package/bin/node", "package/LICENSE"];
    const archive = path.join(work, packed.filename);
    await runCommand("tar", ["-xzf", archive, "-C", work, "--strip-components=1", ...files]);
    rmSync(archive);
    renameSync(work, target);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return target;
}
