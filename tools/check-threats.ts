// Compares the tables of what others have suffered with the names of the tests.
import { existsSync, readFileSync } from "node:fs";

/** Rows that end with the file of a test, which has the id of the first column in its name. */
const byId = /^\| (?<name>[^|]+?) +\|[^|]+\|(?:[^|]+\|)? `(?<file>[^`]+)` +\|$/gm;
/** Rows that end with the file of a test and its name, or the beginning of it. */
const byName = /^\| [^|]+\|[^|]+\| `(?<file>[^`]+)` "(?<name>[^|]+)" +\|$/gm;
const tables: Readonly<Record<string, RegExp>> = {
  "docs/hostile-images.md": byId,
  "docs/hostile-clients.md": byId,
  "docs/original-defects.md": byName,
};
const problems = Object.entries(tables).flatMap(([table, row]) => {
  const rows = [...readFileSync(table, "utf8").matchAll(row)];
  if (rows.length === 0) return [`${table}: there is no table`];
  return rows
    .map(({ groups: { name = "", file = "" } = {} }) => ({ name, file }))
    .filter(({ name, file }) => !isTested(name, file))
    .map(({ name, file }) => `${table}: ${file} has no test with "${name}" in its name`);
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
