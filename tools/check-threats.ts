// Compares the table of docs/hostile-images.md with the names of the tests.
import { existsSync, readFileSync } from "node:fs";

const table = "docs/hostile-images.md";
const rows = readFileSync(table, "utf8").matchAll(/^\| ([^|]+?) +\|[^|]+\| `([^`]+)` +\|$/gm);
const problems: string[] = [];
let count = 0;
for (const [, id = "", file = ""] of rows) {
  count++;
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  const isNamed = text.split("\n").some((line) => /\b(it|test)\(/.test(line) && line.includes(id));
  // The name of a test may stand on the line after.
  const isBelow = new RegExp(`\\b(it|test)\\(\\s*"[^"]*${id.replaceAll(/[^\w -]/g, ".")}`).test(
    text,
  );
  if (!isNamed && !isBelow) problems.push(`${table}: no test of ${file} is named after "${id}"`);
}
if (count === 0) problems.push(`${table}: there is no table`);
for (const problem of problems) console.error(problem);
process.exitCode = problems.length === 0 ? 0 : 1;
