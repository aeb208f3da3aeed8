import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { families } from "./family.ts";
import { policyTableInForce, tableInForce } from "./table-in-force.ts";
import { listed } from "./testing/listed-chains.ts";

/** Asks a kernel that has these tables, the oldest first, and hooks in some of them. */
async function ask(
  tables: readonly string[],
  ...hooked: readonly string[]
): Promise<string | undefined> {
  return await tableInForce(families, async (text) => {
    assert.equal(text, "list chains ip\n"); // others read all elements of all tables
    return await Promise.resolve(listed(tables, hooked));
  });
}

describe("tableInForce()", () => {
  const [a, b] = ["kip_services_a", "kip_services_b"];

  it("names the only table of Services", async () => {
    assert.equal(await ask(["kip_policy", b], b), b);
    assert.equal(await ask(["kip_policy"], "kip_policy"), undefined);
  });

  it("names the one with hooks, if another one was being filled", async () => {
    assert.equal(await ask([a, b], a), a);
    assert.equal(await ask([a, b], b), b);
    assert.equal(await ask([a, b]), undefined);
    assert.equal(await ask([a, "kip_policy", b], "kip_policy"), undefined);
  });

  it("names the newer one, if both have hooks, as the old one was not removed", async () => {
    assert.equal(await ask([a, b], a, b), b);
    assert.equal(await ask([b, "kip_policy", a], a, b), a);
  });

  it("fails if it cannot be found out", async () => {
    const refuse = async (): Promise<string> => await Promise.reject(new Error("no memory"));
    await assert.rejects(tableInForce(families, refuse), /no memory/);
  });
});

describe("policyTableInForce()", () => {
  it("names the newer table of policies", async () => {
    const asked = async (...names: readonly string[]): Promise<string | undefined> =>
      await policyTableInForce(families, async () => await Promise.resolve(listed(names)));
    const [first, second] = ["kip_policy", "kip_policy_b"];
    assert.equal(await asked("kip_services_a"), undefined);
    assert.equal(await asked("kip_services_a", first), first);
    assert.equal(await asked(first, second, "kip_services_a"), second);
    assert.equal(await asked(second, first), first);
  });
});
