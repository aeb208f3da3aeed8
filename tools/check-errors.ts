// Compares the error codes of all packages (the unions in their src/errors.ts) with docs/errors.md, in both directions.
import { readFileSync } from "node:fs";
import { glob } from "node:fs/promises";
import { codesOfUnions } from "./error-codes.ts";

const problems: string[] = [];
const declared = new Set<string>();
const sources: string[] = [];
for await (const file of glob(["packages/*/src/**/*.ts", "apps/*/src/**/*.ts"])) {
  if (file.endsWith(".test.ts")) continue;
  const text = readFileSync(file, "utf8");
  if (!/^\w+\/[\w-]+\/src\/errors\.ts$/.test(file)) {
    sources.push(text);
    if (/new CodedError\(/.test(text))
      problems.push(`${file}: CodedError is a base class: throw the error class of the package`);
    continue;
  }
  const { codes, rest } = codesOfUnions(text);
  for (const code of codes) declared.add(code);
  sources.push(rest);
}
const all = sources.join("\n");
const page = readFileSync("docs/errors.md", "utf8");
const documented = new Set([...page.matchAll(/^\| `([A-Z0-9_]+)`/gm)].map(([, code = ""]) => code));

for (const code of declared) {
  if (!documented.has(code)) problems.push(`docs/errors.md: ${code} is missing`);
  if (!all.includes(`"${code}"`)) problems.push(`${code}: it is declared, but nothing uses it`);
}
for (const code of documented)
  if (!declared.has(code)) problems.push(`docs/errors.md: ${code} is no longer in the code`);

for (const problem of problems.sort()) console.error(problem);
process.exitCode = problems.length === 0 ? 0 : 1;
