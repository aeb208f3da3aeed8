import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { tableText, type Column } from "./table.ts";

interface Row {
  readonly name: string;
  readonly count?: number;
  readonly zone?: string;
}

const columns: readonly Column<Row>[] = [
  { name: "NAME", text: ({ name }) => name },
  { name: "COUNT", isNumber: true, text: ({ count }) => count?.toString() },
  { name: "ZONE", isWide: true, text: ({ zone }) => zone },
];

describe("tableText()", () => {
  it("aligns columns, figures at the right", () => {
    const rows = [
      { name: "a", count: 1 },
      { name: "longer", count: 12_345 },
    ];
    assert.equal(tableText(columns, rows), "NAME     COUNT\na            1\nlonger   12345\n");
  });

  it("shows more columns when wide, and <none> for nothing", () => {
    const rows = [
      { name: "a", zone: "z" },
      { name: "b", zone: "" },
    ];
    assert.equal(
      tableText(columns, rows, { isWide: true }),
      "NAME    COUNT   ZONE\na      <none>   z\nb      <none>   <none>\n",
    );
  });

  it("has the names of columns alone without rows", () => {
    assert.equal(tableText(columns, []), "NAME   COUNT\n");
  });

  it("keeps a row on one line, and what a terminal would obey out", () => {
    const rows = [{ name: "one\r\n  two\u001b[2J\u009b3J\u202e", count: 1 }];
    assert.equal(tableText(columns, rows), "NAME           COUNT\none two[2J3J       1\n");
  });
});
