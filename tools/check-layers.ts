// Compares the imports of every workspace with tools/layers.ts and with its package.json.
import { readFileSync } from "node:fs";
import { glob } from "node:fs/promises";
import path from "node:path";
import { layers, withoutDependencies } from "./layers.ts";
import { withoutComments } from "./without-comments.ts";

interface Manifest {
  readonly name: string;
  readonly dependencies?: Readonly<Record<string, string>>;
}

const problems: string[] = [];
const documented = readFileSync("docs/dependencies.md", "utf8");

for await (const file of glob(["packages/*/package.json", "apps/*/package.json"])) {
  const manifest = JSON.parse(readFileSync(file, "utf8")) as Manifest; // our own file
  await checkWorkspace(path.dirname(file), manifest);
}

for (const problem of problems) console.error(problem);
process.exitCode = problems.length === 0 ? 0 : 1;

async function checkWorkspace(folder: string, manifest: Manifest): Promise<void> {
  const own = layers[manifest.name];
  if (own === undefined)
    return void problems.push(`${folder}: ${manifest.name} is missing in tools/layers.ts`);
  const declared = Object.keys(manifest.dependencies ?? {});
  for (const dependency of declared) {
    const layer = layers[dependency];
    if (layer !== undefined && layer >= own) {
      problems.push(
        `${folder}/package.json: ${dependency} (layer ${layer}) is not below layer ${own}`,
      );
    }
    if (layer === undefined && withoutDependencies.includes(manifest.name)) {
      problems.push(
        `${folder}/package.json: ${manifest.name} runs on cells and takes no dependency`,
      );
    }
    if (layer === undefined && !documented.includes(`\`${dependency}\``)) {
      problems.push(`${folder}/package.json: ${dependency} has no line in docs/dependencies.md`);
    }
  }
  for await (const file of glob(`${folder}/src/**/*.ts`)) {
    if (!file.endsWith(".test.ts")) checkFile(file, folder, declared);
  }
}

function checkFile(file: string, folder: string, declared: readonly string[]): void {
  const text = withoutComments(readFileSync(file, "utf8"));
  for (const [, specifier = ""] of text.matchAll(/(?<!")(?:from|import|import\()\s*"([^"]+)"/g)) {
    if (specifier.startsWith("node:")) continue;
    if (specifier.startsWith(".")) {
      const target = path.join(path.dirname(file), specifier);
      if (!target.startsWith(`${folder}/`))
        problems.push(`${file}: "${specifier}" leaves the package`);
      continue;
    }
    const name = specifier
      .split("/")
      .slice(0, specifier.startsWith("@") ? 2 : 1)
      .join("/");
    if (!declared.includes(name))
      problems.push(`${file}: "${name}" is not a dependency of ${folder}`);
  }
}
