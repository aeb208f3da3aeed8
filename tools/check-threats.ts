// Compares the tables of what others have suffered with the names of the tests.
import { existsSync, readFileSync } from "node:fs";

const tables = ["docs/hostile-images.md", "docs/hostile-clients.md"];
const problems = tables.flatMap((table) => {
  const text = readFileSync(table, "utf8");
  const rows = [...text.matchAll(/^\| ([^|]+?) +\|[^|]+\|(?:[^|]+\|)? `([^`]+)` +\|$/gm)];
  if (rows.length === 0) return [`${table}: there is no table`];
  return rows
    .filter(([, id = "", file = ""]) => !isTested(id, file))
    .map(([, id, file]) => `${table}: no test of ${file} is named after "${id}"`);
});
for (const problem of problems) console.error(problem);
process.exitCode = problems.length === 0 ? 0 : 1;

function isTested(id: string, file: string): boolean {
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  const isNamed = text.split("\n").some((line) => /\b(it|test)\(/.test(line) && line.includes(id));
  // The name of a test may stand on the line after.
  const below = `\\b(it|test)\\(\\s*"[^"]*${id.replaceAll(/[^\w -]/g, ".")}`;
  return isNamed || new RegExp(below).test(text);
}
