// deploy/helm/kip creates the objects of deploy/kustomize. Helm installs, upgrades and removes them on a real API server.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { runCommand } from "@kip/base";
import {
  obtainHelm,
  sharedControlPlane,
  type SharedControlPlane,
} from "@kip/control-plane/testing";
import { temporaryFolder } from "@kip/testing";
import { parse, parseAllDocuments } from "yaml";

const deploy = path.join(import.meta.dirname, "../../../deploy");
const chart = path.join(deploy, "helm/kip");
const page = path.join(deploy, "../docs/install.md");
const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";

/** The fields of a Kubernetes object that these tests read. */
interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly rules?: readonly { readonly resourceNames?: readonly string[] }[];
}

/** The fields of a JSON schema that these tests read. */
interface Schema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
}

describe("deploy/helm/kip", { timeout: 170_000 }, () => {
  const folder = temporaryFolder();
  let plane: SharedControlPlane;
  let program: string;

  before(async () => {
    program = await obtainHelm({ cacheDir });
    plane = await sharedControlPlane();
  });

  after(async () => {
    await plane?.[Symbol.asyncDispose]();
    folder.remove();
  });

  async function helm(...args: readonly string[]): Promise<string> {
    const env = { HOME: folder.path, KUBECONFIG: plane.kubeconfigPath };
    return (await runCommand(program, args, { env })).stdout;
  }

  const render = async (...args: readonly string[]): Promise<readonly Manifest[]> =>
    objectsOf(await helm("template", "kip", chart, "-n", "kip-system", "--include-crds", ...args));

  /** Without the namespace, which Helm creates itself (`--create-namespace`). */
  const kustomized = async (name: string): Promise<readonly Manifest[]> =>
    objectsOf(await plane.kubectl(["kustomize", path.resolve(deploy, "kustomize", name)])).filter(
      ({ kind }) => kind !== "Namespace",
    );

  it("has the objects of the base", async () => {
    assert.deepEqual(await render(), await kustomized("base"));
  });

  it("has those of the overlay for AWS, by its values", async () => {
    const values = path.join(deploy, "helm/values-aws.yaml");
    assert.deepEqual(await render("--values", values), await kustomized("overlays/aws"));
  });

  it("has those of a node of another name, as docs/install.md has kustomize name it", async () => {
    const [, patches = ""] =
      /For a node of another name[^]*?```yaml\n([^]*?)```/.exec(readFileSync(page, "utf8")) ?? [];
    const overlay = path.join(folder.path, "mine");
    mkdirSync(overlay);
    const base = path.relative(overlay, path.join(deploy, "kustomize/base"));
    writeFileSync(
      path.join(overlay, "kustomization.yaml"),
      `resources: [${JSON.stringify(base)}]\n${patches}`,
    );
    assert.deepEqual(await render("--set", "nodeName=mine"), await kustomized(overlay));
    const names = (await render("--set", "nodeName=mine")).flatMap(({ rules = [] }) =>
      rules.flatMap(({ resourceNames = [] }) => resourceNames),
    );
    assert.ok(names.includes("mine.kip") && !names.includes("kip"), names.join(" "));
  });

  it("keeps to values of another type, size and name", async () => {
    const file = path.join(folder.path, "values.yaml");
    writeFileSync(
      file,
      JSON.stringify({
        image: { digest: `sha256:${"a".repeat(64)}` },
        replicas: 1,
        nodeName: "1e3",
        providerConfig: { cells: { nametag: "1e3", healthcheck: { healthyTimeout: 1e7 } } },
        priorityClass: { value: 12_345_678 },
        extraArgs: ["--cluster-dns=10.0.0.10"],
        extraVolumes: [{ name: "tls", secret: { secretName: "tls" } }],
        extraVolumeMounts: [{ name: "tls", mountPath: "/etc/tls" }],
      }),
    );
    const objects = await render("--values", file);
    const text = JSON.stringify(objects);
    const kinds = objects.map(({ kind }) => kind);
    assert.ok(!kinds.includes("PodDisruptionBudget"), "with one replica no drain would end");
    assert.match(text, /"image":"kip@sha256:a{64}"/);
    assert.match(text, /"key":"metadata.name","operator":"NotIn","values":\["1e3"\]/);
    assert.match(text, /"--nodename=1e3".*"--cluster-dns=10.0.0.10"/);
    assert.match(text, /"value":12345678/);
    assert.match(
      text,
      /"mountPath":"\/etc\/tls","name":"tls"|"name":"tls","mountPath":"\/etc\/tls"/,
    );
    assert.deepEqual(objects.find(({ kind }) => kind === "ConfigMap")?.data, {
      "provider.yaml": {
        apiVersion: "v1",
        cloud: { aws: {} },
        cells: { nametag: "1e3", healthcheck: { healthyTimeout: 1e7 } },
      },
    });
  });

  it("refuses values that it does not know, or of a wrong type", async () => {
    const wrong = [
      ["replica=3", /replica/],
      ["replicas=-1", /replicas/],
      ["nodeName=a_b", /nodeName/],
      ["nodeName=a..b", /nodeName/],
      [`nodeName=${"a".repeat(64)}`, /nodeName/],
    ] as const;
    for (const [value, message] of wrong)
      await assert.rejects(render("--set", value), message, value);
  });

  it("describes each value in its schema, and each has a default", () => {
    const read = (name: string): unknown => parse(readFileSync(path.join(chart, name), "utf8"));
    const schema = read("values.schema.json") as Schema; // our own file
    assert.deepEqual(undescribed(schema, ""), []);
    const known = Object.keys(schema.properties ?? {}).filter((name) => name !== "global");
    assert.deepEqual(known.sort(), Object.keys(read("values.yaml") as object).sort());
  });

  it("installs, upgrades and leaves nothing but the Cell resource", async () => {
    const namespace = await plane.createNamespace("chart");
    const before = await namesIn(namespace);
    // A namespace of its own, because other tests may also install kip here.
    const place = [namespace, chart, "-n", namespace];
    await helm("install", ...place, "--set", `nodeName=${namespace}`);
    const config = async (): Promise<string> =>
      await plane.kubectl(["get", "configmap", "kip", "-n", namespace, "-o", "yaml"]);
    assert.match(await config(), /nametag: kip/);
    await plane.kubectl(["get", `priorityclass/${namespace}`, `clusterrole/${namespace}`]);
    const account = `system:serviceaccount:${namespace}:kip`;
    await plane.kubectl(["auth", "can-i", "create", "cells", `--as=${account}`]);
    const changes = ["--set", "providerConfig.cells.nametag=other", "--set", "replicas=3"];
    await helm("upgrade", ...place, "--reuse-values", ...changes);
    assert.match(await config(), /nametag: other/);
    const deployment = ["get", "deployment", "kip", "-n", namespace, "-o", "json"];
    assert.match(await plane.kubectl(deployment), /"replicas": 3,/);
    await helm("uninstall", namespace, "-n", namespace, "--wait");
    assert.deepEqual(await namesIn(namespace), before);
    await plane.kubectl(["get", "crd", "cells.kip.elotl.co"]);
  });

  /** The objects in a namespace, and those outside of it that are named after it. */
  async function namesIn(namespace: string): Promise<readonly string[]> {
    const kinds = "deploy,pod,rs,cm,secret,svc,sa,pdb,netpol,role,rolebinding";
    const inside = await plane.kubectl(["get", kinds, "-n", namespace, "-o", "name"]);
    const all = await plane.kubectl(["get", "clusterrole,clusterrolebinding,pc", "-o", "name"]);
    const outside = all.split("\n").filter((line) => line.endsWith(`/${namespace}`));
    return [...inside.trim().split("\n"), ...outside].sort();
  }
});

/** All objects, in an order that does not depend on the program that made them. */
function objectsOf(text: string): readonly Manifest[] {
  const objects = parseAllDocuments(text)
    .map((document) => document.toJS() as Manifest | null) // both programs print manifests
    .filter((object) => object !== null);
  const name = ({ kind, metadata }: Manifest): string =>
    `${kind} ${metadata.namespace} ${metadata.name}`;
  return objects.map((object) => withConfig(object)).sort((a, b) => (name(a) < name(b) ? -1 : 1));
}

/** Replaces the text of provider.yaml by its parsed content. Comments and the order of keys may differ. */
function withConfig(object: Manifest): Manifest {
  if (object.kind !== "ConfigMap") return object;
  const entries = Object.entries(object.data ?? {}).map(([key, text]) => [key, parse(text)]);
  return { ...object, data: Object.fromEntries(entries) };
}

/** Paths of values without a description. */
function undescribed({ properties = {} }: Schema, prefix: string): readonly string[] {
  return Object.entries(properties).flatMap(([name, value]) => {
    const own = value.description === undefined ? [prefix + name] : [];
    return [...own, ...undescribed(value, `${prefix}${name}.`)];
  });
}
