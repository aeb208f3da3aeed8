// Fails when a Markdown page links to a file of the repository that is not there, or names a path in backquotes that is not.
import { existsSync, globSync, readFileSync } from "node:fs";
import path from "node:path";

const problems: string[] = [];
const paths =
  /`((?:packages|apps|tools|e2e|bench|docs|examples|deploy)\/[\w./-]+\.(?:ts|sh|json|md|yaml))`/g;
for (const page of globSync(["*.md", "docs/**/*.md", "packages/*/README.md", "apps/*/README.md"])) {
  if (page === "CHANGELOG.md") continue; // tells of files that have moved since
  const text = readFileSync(page, "utf8");
  for (const [, target = ""] of text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
    if (!/^[a-z]+:/.test(target)) check(page, path.join(path.dirname(page), target), target);
  }
  for (const [, target = ""] of text.matchAll(paths)) check(page, target, target);
}
for (const problem of problems) console.error(problem);
process.exitCode = problems.length === 0 ? 0 : 1;

function check(page: string, file: string, shown: string): void {
  if (!existsSync(file)) problems.push(`${page}: "${shown}" does not exist`);
}
