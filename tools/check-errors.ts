// Compares the error codes in the code with docs/errors.md, in both directions.
import { readFileSync } from "node:fs";
import { glob } from "node:fs/promises";
import { withoutComments } from "./without-comments.ts";

const inCode = new Set<string>();
for await (const file of glob(["packages/*/src/**/*.ts", "apps/*/src/**/*.ts"])) {
  if (file.endsWith(".test.ts")) continue;
  const text = withoutComments(readFileSync(file, "utf8"));
  for (const [, code = ""] of text.matchAll(/\w*Error\(\s*"([A-Z][A-Z0-9_]+)"/g)) inCode.add(code);
  if (!file.endsWith("/errors.ts")) continue; // the union of the package's codes
  for (const [, code = ""] of text.matchAll(/[|=]\s*"([A-Z][A-Z0-9_]+)"/g)) inCode.add(code);
}
const page = readFileSync("docs/errors.md", "utf8");
const inDocs = new Set([...page.matchAll(/^\| `([A-Z0-9_]+)`/gm)].map(([, code = ""]) => code));

const missing = [...inCode].filter((code) => !inDocs.has(code)).sort();
const stale = [...inDocs].filter((code) => !inCode.has(code) && !code.startsWith("CLOUD_")).sort();
for (const code of missing) console.error(`docs/errors.md: ${code} is missing`);
for (const code of stale) console.error(`docs/errors.md: ${code} is no longer in the code`);
process.exitCode = missing.length + stale.length === 0 ? 0 : 1;
