import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, describe, it } from "node:test";
import { KipError } from "../errors.ts";
import { readManifest } from "./read-manifest.ts";

const folder = mkdtempSync(path.join(tmpdir(), "kip-price-"));
after(() => rmSync(folder, { recursive: true }));
const file = path.join(folder, "pods.yaml");

function read(text: string) {
  writeFileSync(file, text);
  return readManifest(file);
}

const container = `containers: [{name: a, resources: {limits: {cpu: 2, memory: 1Gi}}}]`;

describe("readManifest()", () => {
  it("finds the pods of all documents, and how many of them there are", () => {
    const workload = (kind: string, spec: string): string =>
      `kind: ${kind}\nmetadata: {name: x}\nspec: {${spec} template: {spec: {${container}}}}\n`;
    const found = read(
      [
        `kind: Pod\nmetadata: {name: x}\nspec: {${container}}\n`,
        workload("Deployment", "replicas: 3,"),
        workload("StatefulSet", ""),
        workload("DaemonSet", ""),
        workload("Job", "parallelism: 4,"),
        `kind: CronJob\nmetadata: {name: x}\nspec: {jobTemplate: {spec: {template: {spec: {${container}}}}}}\n`,
        `kind: List\nitems: [{kind: Pod, metadata: {name: x}, spec: {${container}}}, {kind: Service}]\n`,
        "kind: Service\n",
        "",
      ].join("---\n"),
    );
    assert.deepEqual(
      found.map(({ kind, replicas }) => [kind, replicas]),
      [
        ["Pod", 1],
        ["Deployment", 3],
        ["StatefulSet", 1],
        ["DaemonSet", 1],
        ["Job", 4],
        ["CronJob", 1],
        ["Pod", 1],
      ],
    );
    for (const { pod } of found)
      assert.deepEqual(pod.spec.containers[0]?.resources?.requests, { cpu: "2", memory: "1Gi" });
  });

  const bad: readonly (readonly [what: string, text: string, message: RegExp, remedy: RegExp])[] = [
    ["what is not YAML", "a:\n- [", /not valid YAML, see line 2/, /line/],
    ["text", "hello", /it is not an object$/, /kubectl apply/],
    ["a manifest without pods", "kind: Service", /nothing in it makes pods$/, /Deployment/],
    [
      "a wrong key",
      `kind: Pod\nspec: {containers: [{name: a, resource: {}}]}`,
      /"spec\.containers\[0\]\.resource": there is no such key$/,
      /Did you mean "resources"/,
    ],
    [
      "a quantity that is none, in the document that has it",
      `kind: Service\n---\nkind: Pod\nspec: {containers: [{name: a, resources: {limits: {cpu: 5 cores}}}]}`,
      /document 2 of .*pods\.yaml: Cannot read "spec\.containers\[0\]\.resources\.limits\.cpu"/,
      /"500m"/,
    ],
    [
      "less than nothing",
      `kind: Pod\nspec: {containers: [{name: a, resources: {requests: {cpu: -1}}}]}`,
      /"-1" is below zero/,
      /0 or more/,
    ],
    ["a pod without containers", "kind: Pod\nspec: {}", /"spec\.containers": a list expected/, /./],
    ["an alias without its anchor", "kind: *x", /Cannot (read|price)/, /./],
  ];
  for (const [what, text, message, remedy] of bad)
    it(`refuses ${what}, and says where and what to do`, () => {
      assert.throws(
        () => read(text),
        (error) =>
          KipError.is(error, "MANIFEST_INVALID") &&
          message.test(error.message) &&
          remedy.test(error.remedy ?? "") &&
          error.message.includes("pods.yaml"),
      );
    });

  it("refuses a file that is not there", () => {
    assert.throws(() => readManifest(path.join(folder, "none.yaml")), {
      message: /there is no such file$/,
      remedy: /-f/,
    });
  });

  it("quotes nothing of what it cannot parse, which may be a password", () => {
    assert.throws(
      () => read("env: {PASSWORD: hidden, host: [}"),
      (error) => {
        assert.doesNotMatch(String(error), /hidden/);
        return true;
      },
    );
  });
});
