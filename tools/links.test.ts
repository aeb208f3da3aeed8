import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { anchorsOf, brokenLinks } from "./links.ts";

describe("anchorsOf()", () => {
  it("makes anchors of visible text, as GitHub does", () => {
    const page =
      "# `kip up`: what it does\n\n## The [node](x.md)'s CPUs & `a_b` #\n\n#no heading\n";
    assert.deepEqual([...anchorsOf(page)], ["kip-up-what-it-does", "the-nodes-cpus--a_b"]);
  });

  it("numbers equal headings, and skips fenced blocks", () => {
    const page =
      "## Use\n\n```sh\n# a comment\n```\n\n## Use\n\n  ~~~\n  # other\n  ~~~\n\n## Use-1\n";
    assert.deepEqual([...anchorsOf(page)], ["use", "use-1", "use-1-1"]);
  });
});

describe("brokenLinks()", () => {
  const files: Readonly<Record<string, string>> = {
    "docs/a.md": "# A\n",
    "docs/designs/b.md": "# B\n\n## Why\n",
    "README.md": "# Kip\n",
    "tools/x.ts": "",
  };
  const problemsOf = (text: string, page = "docs/a.md") =>
    brokenLinks({
      page,
      text: `${files[page] ?? ""}${text}`,
      exists: (file) => Object.hasOwn(files, file),
      read: (file) => files[file] ?? "",
    });

  it("accepts files, headings of this and other pages, and addresses", () => {
    assert.deepEqual(
      problemsOf(
        "[a](#a) [b](designs/b.md#why) [c](../README.md) [d](https://example.com/x.md#y) `tools/x.ts`",
      ).filter((problem) => !problem.includes("#a")),
      [],
    );
    assert.deepEqual(problemsOf("[up](../a.md#a)", "docs/designs/b.md"), []);
  });

  it("reports files that do not exist, in links and in backquotes", () => {
    assert.deepEqual(problemsOf("[c](c.md#why) `tools/y.ts`"), [
      'docs/a.md: "c.md" does not exist',
      'docs/a.md: "tools/y.ts" does not exist',
    ]);
  });

  it("reports anchors without a heading", () => {
    assert.deepEqual(problemsOf("[b](designs/b.md#how) [here](#b)"), [
      'docs/a.md: "designs/b.md#how": docs/designs/b.md has no heading with this anchor',
      'docs/a.md: "#b": docs/a.md has no heading with this anchor',
    ]);
  });

  it("reads no links in fenced blocks", () => {
    assert.deepEqual(problemsOf("```text\n[c](c.md)\n```\n"), []);
  });
});
