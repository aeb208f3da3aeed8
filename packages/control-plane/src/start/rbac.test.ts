import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { kipRoles, startingObjects, type PolicyRule } from "./rbac.ts";

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

describe("kipRoles()", () => {
  const rulesFor = (rules: readonly PolicyRule[], resource: string): readonly string[] =>
    rules
      .filter(({ resources }) => resources.includes(resource))
      .flatMap(({ verbs, resourceNames }) =>
        verbs.map((verb) => `${verb} ${resourceNames?.join(",") ?? "*"}`),
      );

  it("lets kip read its own Secret alone: one that it makes may get a token of another account", () => {
    const { cluster, own } = kipRoles("cells");
    assert.deepEqual(rulesFor(own, "secrets"), ["get kip-cell-ca", "create *"]);
    assert.deepEqual(rulesFor(cluster, "secrets"), []);
  });

  it("lets kip change one resource definition, and the objects of its own node", () => {
    const { cluster, leases } = kipRoles("cells");
    assert.deepEqual(rulesFor(cluster, "customresourcedefinitions"), [
      "list *",
      "watch *",
      "create cells.kip.elotl.co",
      "patch cells.kip.elotl.co",
    ]);
    assert.deepEqual(rulesFor(cluster, "nodes/status"), ["patch cells"]);
    assert.deepEqual(rulesFor(cluster, "nodes"), ["patch cells", "get *", "list *", "watch *"]);
    assert.deepEqual(rulesFor(cluster, "certificatesigningrequests"), []);
    assert.deepEqual(rulesFor(cluster, "leases"), []);
    assert.equal(rulesFor(leases, "leases")[0], "update cells,cells.kip");
  });

  it("lets it serve a node of any name where it does not act as one", () => {
    const { cluster, leases } = kipRoles(undefined);
    assert.deepEqual(rulesFor(cluster, "nodes/status"), ["patch *"]);
    assert.equal(rulesFor(leases, "leases")[0], "update *");
  });
});
