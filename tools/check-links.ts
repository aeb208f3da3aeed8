// Fails if a Markdown page links to a file of the repository or a heading that does not exist, or names such a path in
// backquotes.
import { existsSync, globSync, readFileSync } from "node:fs";
import { brokenLinks } from "./links.ts";

const pages = globSync(["*.md", "docs/**/*.md", "packages/*/README.md", "apps/*/README.md"]);
const read = (file: string): string => readFileSync(file, "utf8");
const problems = pages.flatMap((page) =>
  brokenLinks({ page, text: read(page), exists: existsSync, read }),
);
for (const problem of problems) console.error(problem);
process.exitCode = problems.length === 0 ? 0 : 1;
