// Compares the tables of known attacks and defects in docs/ with the names of the tests.
import { existsSync, readFileSync } from "node:fs";

/** Rows that end with a test file. A test's name in it contains the ID in the first column. */
const byId = /^\| (?<name>[^|]+?) +\|[^|]+\|(?:[^|]+\|)? `(?<file>[^`]+)` +\|$/gm;
/** Rows that end with a test file and the name of the test, or the beginning of it. */
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
  // The test's name may be on the next line.
  const below = `\\b(it|test)\\(\\s*"[^"]*${id.replaceAll(/[^\w -]/g, ".")}`;
  return isNamed || new RegExp(below).test(text);
}
