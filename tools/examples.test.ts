import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { examplesOf, findExamples } from "./examples.ts";

const root = path.join(import.meta.dirname, "..");

describe("examplesOf()", () => {
  it("finds the ts blocks behind @example, and no others", () => {
    const source = [
      "/**",
      " * A store.",
      " * ```ts",
      " * not run",
      " * ```",
      " * @example",
      " * ```ts",
      " * first();",
      " *   second();",
      " * ```",
      " * @example `short`",
      " * @see elsewhere",
      " * ```ts",
      " * not run either",
      " * ```",
      " */",
    ].join("\n");
    const [found, ...others] = examplesOf(source, "store.ts");
    assert.deepEqual(others, []);
    assert.equal(found?.place, "store.ts:7");
    assert.match(found.code, /\nfirst\(\);\n {2}second\(\);\n/);
  });
});

describe("the examples in docstrings", () => {
  const examples = findExamples(root).map((example, index) => ({ ...example, index }));
  let folder: string;
  const fileOf = (index: number): string => path.join(folder, `example-${index}.ts`);

  before(() => {
    // Beside the packages, so that their names are resolved.
    mkdirSync(path.join(root, ".cache"), { recursive: true });
    folder = mkdtempSync(path.join(root, ".cache/examples-"));
    for (const { code, index } of examples) writeFileSync(fileOf(index), code);
  });
  after(() => rmSync(folder, { recursive: true }));

  it("compile", { timeout: 120_000 }, () => {
    const extended = path.join(root, "tsconfig.json");
    const config = path.join(folder, "tsconfig.json");
    const compilerOptions = { noUnusedLocals: false };
    const files = examples.map(({ index }) => fileOf(index));
    writeFileSync(
      config,
      JSON.stringify({ extends: extended, compilerOptions, files, include: [] }),
    );
    const tsc = path.join(root, "node_modules/.bin/tsc");
    const { status, stdout } = spawnSync(tsc, ["-p", config], { encoding: "utf8" });
    const names = stdout.replaceAll(
      /^\S*example-(\d+)\.ts/gm,
      (_, index: string) => examples[Number(index)]?.place ?? "",
    );
    assert.equal(status, 0, names);
  });

  for (const { place, index } of examples)
    it(`run: ${place}`, { timeout: 60_000 }, async () => {
      await import(fileOf(index));
    });
});
