// Puts the .pl files of a package into its src/gen/scripts.gen.ts, where a bundle of one file has them too.
//   node tools/embed-scripts.ts            makes the files
//   node tools/embed-scripts.ts --check    fails if they differ from what is committed, or if a script does not compile
import { spawnSync } from "node:child_process";
import { globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

const isCheck = process.argv.includes("--check");
const scripts = globSync("packages/*/src/**/*.pl").sort();
const byPackage = Map.groupBy(scripts, (file) => file.split("/").slice(0, 2).join("/"));
const problems: string[] = [];

for (const [folder, files] of byPackage) {
  const target = path.join(folder, "src/gen/scripts.gen.ts");
  const text = moduleOf(files.map((file) => ({ file, script: readFileSync(file, "utf8") })));
  if (!isCheck) {
    mkdirSync(path.dirname(target), { recursive: true });
    writeFileSync(target, text);
  } else if (readOr(target, "") !== text) {
    problems.push(`${target}: is not up to date; run node tools/embed-scripts.ts`);
  }
}
if (isCheck) {
  for (const file of scripts) {
    const { status, stderr } = spawnSync("/usr/bin/perl", ["-wc", file], { encoding: "utf8" });
    if (status !== 0) problems.push(`${file}: does not compile: ${stderr}`);
  }
}
for (const problem of problems) console.error(problem);
process.exitCode = problems.length === 0 ? 0 : 1;

function moduleOf(scripts: readonly { readonly file: string; readonly script: string }[]): string {
  const constants = scripts.map(({ file, script }) => {
    if (/`|\$\{/.test(script)) throw new Error(`${file}: holds a backtick or "\${"`);
    const words = path.basename(file, ".pl").split("-");
    const name = words.map((word, index) => (index === 0 ? word : capital(word))).join("");
    return `/** ${file} */\nexport const ${name}Script = String.raw\`${script}\`;\n`;
  });
  return `// Made by tools/embed-scripts.ts. Do not edit.\n\n${constants.join("\n")}`;
}

function capital(word: string): string {
  return word.slice(0, 1).toUpperCase() + word.slice(1);
}

function readOr(file: string, fallback: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return fallback;
  }
}
