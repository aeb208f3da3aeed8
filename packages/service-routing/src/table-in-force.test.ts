import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { families } from "./family.ts";
import { tableInForce } from "./table-in-force.ts";

/** Asks a kernel that has these tables, and hooks in one of them. */
async function ask(tables: readonly string[], hooked?: string): Promise<string | undefined> {
  return await tableInForce(families, async (text) => {
    if (text.startsWith("list tables")) return tables.map((name) => `table ip ${name}\n`).join("");
    if (hooked === undefined || !text.includes(hooked)) throw new Error("No such file");
    return "";
  });
}

describe("tableInForce()", () => {
  const [a, b] = ["kip_services_a", "kip_services_b"];

  it("names the only table of Services", async () => {
    assert.equal(await ask(["kip_policy", b]), b);
    assert.equal(await ask(["kip_policy"]), undefined);
  });

  it("names the one with hooks, if another one was being filled", async () => {
    assert.equal(await ask([a, b], a), a);
    assert.equal(await ask([a, b], b), b);
    assert.equal(await ask([a, b]), undefined);
  });

  it("fails if it cannot be found out", async () => {
    const refuse = async (): Promise<string> => await Promise.reject(new Error("no memory"));
    await assert.rejects(tableInForce(families, refuse), /no memory/);
  });
});
