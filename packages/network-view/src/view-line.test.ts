import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DecodeError } from "@kip/base";
import { limits } from "./limits.ts";
import type { ServiceView } from "./service-view.ts";
import { TableDigest } from "./table-digest.ts";
import { decodeLine, encodeLine, type ViewLine } from "./view-line.ts";

const web: ServiceView = {
  clusterIps: ["10.96.0.10", "fd00::a"],
  affinitySeconds: 10_800,
  isExternalLocal: true,
  ports: [
    {
      name: "http",
      protocol: "TCP",
      port: 80,
      nodePort: 30_080,
      endpoints: ["10.0.0.1:8080", "[fd00:1::1]:8080"],
      localEndpoints: [],
    },
  ],
};

describe("decodeLine()", () => {
  const lines: readonly ViewLine[] = [
    { kind: "service", key: "default/web", view: web },
    { kind: "service", key: "default/web", view: undefined },
    { kind: "bucket", bucket: 63 },
    { kind: "group", name: "g1", change: "reset", add: ["10.0.0.1"], remove: [] },
    { kind: "group", name: "g1", change: "change", add: ["fd00::1"], remove: ["10.0.0.1"] },
    { kind: "group", name: "g1", change: "gone" },
    {
      kind: "policy",
      policy: {
        ingress: [
          {
            groups: ["g1"],
            blocks: [{ cidr: "10.0.0.0/8", except: ["10.1.0.0/16"] }],
            ports: [{ protocol: "TCP", port: 80, endPort: 90 }],
          },
        ],
        egress: [],
      },
    },
    { kind: "policy", policy: {} },
    { kind: "end", number: 7 },
  ];
  for (const line of lines) {
    it(`reads a line of kind ${line.kind} as it was written: ${encodeLine(line).length} bytes`, () => {
      assert.deepEqual(decodeLine(encodeLine(line).trimEnd()), line);
    });
  }

  const service = (change: object): string =>
    JSON.stringify(["service", "default/web", { ...web, ...change }]);
  const refused: Readonly<Record<string, string>> = {
    "an address that is not canonical": service({ clusterIps: ["FD00::A"] }),
    "text in place of an address": service({ externalIps: ["10.0.0.1; flush ruleset"] }),
    "an endpoint without a port": service({
      ports: [{ ...web.ports[0], endpoints: ["10.0.0.1"] }],
    }),
    "too many cluster IPs": service({
      clusterIps: Array<string>(limits.addresses + 1).fill("10.0.0.1"),
    }),
    "an affinity of more than a day": service({ affinitySeconds: 86_401 }),
    "a key with a line end": JSON.stringify(["service", "default/web\n", web]),
    "a key that is too long": JSON.stringify([
      "service",
      "x".repeat(limits.keyCharacters + 1),
      web,
    ]),
    "a bucket that does not exist": JSON.stringify(["bucket", 64]),
    "a kind that does not exist": JSON.stringify(["rule", 1]),
    "a CIDR with bits behind its prefix": JSON.stringify([
      "policy",
      { ingress: [{ blocks: [{ cidr: "10.0.0.1/8" }] }] },
    ]),
  };
  for (const [what, text] of Object.entries(refused)) {
    it(`refuses ${what}`, () => {
      assert.throws(
        () => decodeLine(text),
        (error) => DecodeError.is(error, "DECODE_FAILED"),
      );
    });
  }
});

describe("TableDigest", () => {
  it("is the same for the same lines, whatever led there", () => {
    const [one, other] = [new TableDigest(), new TableDigest()];
    one.change("a/a", undefined, "1");
    one.change("a/b", undefined, "2");
    other.change("a/b", undefined, "3");
    other.change("a/c", undefined, "4");
    other.change("a/a", undefined, "1");
    other.change("a/b", "3", "2");
    assert.notDeepEqual(one.sums, other.sums);
    other.change("a/c", "4", undefined);
    assert.deepEqual(one.sums, other.sums);
  });

  it("is zero again when all lines are gone", () => {
    const digest = new TableDigest();
    digest.change("a/a", undefined, "1");
    digest.change("a/a", "1", undefined);
    assert.deepEqual(new Set(digest.sums), new Set([0]));
  });

  it("writes actions in a line that agents which do not know them refuse", () => {
    const policy = { admin: { ingress: [{ action: "deny" as const }] } };
    const line = encodeLine({ kind: "policy", policy });
    assert.ok(line.startsWith('["tiers",'));
    const baseline = encodeLine({ kind: "policy", policy: { baseline: policy.admin } });
    assert.ok(baseline.startsWith('["tiers",'));
    assert.deepEqual(decodeLine(line.trimEnd()), { kind: "policy", policy });
    assert.ok(encodeLine({ kind: "policy", policy: {} }).startsWith('["policy",'));
    const unknown = '["tiers",{"admin":{"ingress":[{"action":"audit"}]}}]';
    assert.throws(() => decodeLine(unknown), /one of allow, deny, pass expected/);
  });
});
