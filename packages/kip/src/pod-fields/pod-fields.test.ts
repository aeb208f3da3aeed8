import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { podFields } from "./pod-fields.ts";

const repository = new URL("../../../../", import.meta.url);
const prefix = "#/definitions/io.k8s.api.core.v1.";

interface Definition {
  readonly $ref?: string;
  readonly items?: Definition;
  readonly properties?: Readonly<Record<string, Definition>>;
}

const { definitions } = JSON.parse(
  readFileSync(new URL("packages/k8s-types/openapi.json", repository), "utf8"),
) as { readonly definitions: Readonly<Record<string, Definition>> }; // in the generator's format

function propertiesOf(type: string): Readonly<Record<string, Definition>> {
  return definitions[`io.k8s.api.core.v1.${type}`]?.properties ?? {};
}

/** The type of a field or its elements, if that type has fields. */
function typeOf({ $ref, items }: Definition): string | undefined {
  const name = ($ref ?? items?.$ref)?.slice(prefix.length);
  return name !== undefined && Object.keys(propertiesOf(name)).length > 0 ? name : undefined;
}

describe("podFields", () => {
  it("decides every field of a pod that the API has, and no other", () => {
    const open = ["PodSpec"];
    const seen = new Set<string>();
    for (let type = open.pop(); type !== undefined; type = open.pop()) {
      if (seen.has(type)) continue;
      seen.add(type);
      const properties = propertiesOf(type);
      assert.deepEqual(
        Object.keys(podFields[type] ?? {}).sort(),
        Object.keys(properties).sort(),
        `fields of ${type}`,
      );
      for (const [field, decision] of Object.entries(podFields[type] ?? {})) {
        if (decision.kind !== "works") continue;
        assert.equal(decision.of, typeOf(properties[field] ?? {}), `type of ${type}.${field}`);
        if (decision.of !== undefined) open.push(decision.of);
      }
    }
    assert.deepEqual([...seen].sort(), Object.keys(podFields).sort());
  });

  it("names a test that exists for each field that works", () => {
    const texts = new Map<string, string>();
    for (const [type, fields] of Object.entries(podFields)) {
      for (const [field, decision] of Object.entries(fields)) {
        if (decision.kind !== "works") continue;
        const end = decision.test.indexOf(": ");
        const file = decision.test.slice(0, end);
        const text = texts.get(file) ?? readFileSync(new URL(file, repository), "utf8");
        texts.set(file, text);
        const name = decision.test.slice(end + 2);
        assert.ok(text.includes(`"${name}"`), `${type}.${field}: ${decision.test}`);
      }
    }
  });
});
