// The `@example`s in docstrings, as programs. examples.test.ts compiles and runs them.
import { globSync, readFileSync } from "node:fs";
import path from "node:path";

/** One `@example` with a `ts` block. */
export interface Example {
  /** File and line of the block, for test names: `packages/base/src/x.ts:12`. */
  readonly place: string;
  /** The program, with `assert` imported. */
  readonly code: string;
}

/** Finds the runnable examples of all packages and apps, except in tests. */
export function findExamples(root: string): readonly Example[] {
  return globSync("{packages,apps}/*/src/**/*.ts", { cwd: root })
    .filter((file) => !file.endsWith(".test.ts"))
    .sort()
    .flatMap((file) => examplesOf(readFileSync(path.join(root, file), "utf8"), file));
}

/** The runnable examples of one source file: the blocks from "```ts" to "```" after `@example` in a `/**` comment. */
export function examplesOf(source: string, file: string): readonly Example[] {
  const examples: Example[] = [];
  let block: string[] | undefined;
  let isExample = false;
  for (const [index, line] of source.split("\n").entries()) {
    const text = /^\s*\* ?(?!\/)(.*)$/.exec(line)?.[1];
    if (text === undefined) {
      isExample = false; // outside of a comment
      block = undefined;
    } else if (block !== undefined && text.trim() === "```") {
      const code = `import assert from "node:assert/strict";\n${block.join("\n")}\n`;
      examples.push({ place: `${file}:${index - block.length}`, code });
      block = undefined;
    } else if (block !== undefined) block.push(text);
    else if (isExample && text.trim() === "```ts") block = [];
    else if (text.startsWith("@")) isExample = text.startsWith("@example");
  }
  return examples;
}
