import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startingObjects, type PolicyRule } from "./rbac.ts";

/** The resources that the cluster role of kip names. */
function resourcesOf(actsAsNode: string | undefined): readonly string[] {
  const { items } = JSON.parse(startingObjects(actsAsNode)) as {
    readonly items: readonly {
      readonly kind: string;
      readonly rules?: readonly PolicyRule[];
    }[];
  }; // our own
  const rules = items.find(({ kind }) => kind === "ClusterRole")?.rules ?? [];
  return rules.flatMap(({ resources, resourceNames }) => [...resources, ...(resourceNames ?? [])]);
}

describe("startingObjects()", () => {
  const references = ["configmaps", "secrets", "serviceaccounts/token"];

  it("lets kip read what pods refer to, as long as it does not act as a node", () => {
    const resources = resourcesOf(undefined);
    for (const each of references) assert.ok(resources.includes(each), each);
    assert.ok(!resources.includes("users"));
  });

  it("lets kip impersonate its own node instead, and no other one", () => {
    const resources = resourcesOf("cells");
    for (const each of references) assert.ok(!resources.includes(each), each);
    assert.deepEqual(
      resources.filter((each) => each.startsWith("system:")),
      ["system:node:cells", "system:nodes"],
    );
  });
});
