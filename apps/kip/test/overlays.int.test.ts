// For each overlay of deploy/kustomize: an API server accepts its objects, kip accepts its files and flags, and it differs from
// the base only where it says so.
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { parseOptions } from "@kip/base";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import { temporaryFolder } from "@kip/testing";
import { parseAllDocuments } from "yaml";
import { readConfigFiles } from "../src/config/read-provider-config.ts";
import { providerOptions } from "../src/provider/provider-options.ts";

const kustomize = path.join(import.meta.dirname, "../../../deploy/kustomize");
const overlays = readdirSync(path.join(kustomize, "overlays"));

/** The fields of a Kubernetes object that these tests read. */
interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: {
    readonly template?: {
      readonly spec: {
        readonly containers: readonly {
          readonly image: string;
          readonly args: readonly string[];
        }[];
      };
    };
  };
}

describe("deploy/kustomize/overlays", { timeout: 120_000 }, () => {
  const folder = temporaryFolder();
  let plane: SharedControlPlane;
  let namespace: string;

  before(async () => {
    plane = await sharedControlPlane();
    namespace = await plane.createNamespace("overlays");
  });

  after(async () => {
    await plane?.[Symbol.asyncDispose]();
    folder.remove();
  });

  const objectsOf = async (place: string): Promise<ReadonlyMap<string, Manifest>> => {
    const documents = parseAllDocuments(await plane.kubectl(["kustomize", place]));
    const objects = documents.map((document) => document.toJS() as Manifest); // our own files
    return new Map(objects.map((each) => [`${each.kind} ${each.metadata.name}`, each]));
  };
  const kipOf = (objects: ReadonlyMap<string, Manifest>) =>
    objects.get("Deployment kip")?.spec?.template?.spec.containers[0] ?? assert.fail();

  it("are those that this version has drivers for", () => {
    assert.deepEqual(overlays.sort(), ["aws", "cloudinit", "conformance"]);
  });

  for (const name of overlays) {
    const place = path.join(kustomize, "overlays", name);

    it(`${name}: kip can use its files, which the ConfigMap has all of`, async () => {
      const { config, problems, files } = await readConfigFiles(path.join(place, "provider.yaml"));
      assert.deepEqual(problems, []);
      assert.equal(config?.cloudInitFile !== undefined, name === "cloudinit");
      const { data = {} } = (await objectsOf(place)).get("ConfigMap kip") ?? {};
      const named = ["provider.yaml", ...files.map((file) => path.relative(place, file))];
      assert.deepEqual(Object.keys(data).sort(), named.sort());
      for (const file of named)
        assert.equal(data[file], readFileSync(path.join(place, file), "utf8"));
    });

    it(`${name}: is the base, with another image, configuration and flags`, async () => {
      const [base, own] = [await objectsOf(path.join(kustomize, "base")), await objectsOf(place)];
      assert.deepEqual([...own.keys()], [...base.keys()]);
      for (const [key, object] of own)
        if (key !== "ConfigMap kip" && key !== "Deployment kip")
          assert.deepEqual(object, base.get(key));
      const [before, after] = [kipOf(base), kipOf(own)];
      assert.equal(after.image, "registry.example/kip:0.1.0");
      const more = name === "conformance" ? ["--disable-taint"] : [];
      assert.deepEqual(after.args, [...before.args, ...more]);
      parseOptions(providerOptions, after.args, {});
    });

    it(`${name}: an API server takes it`, async () => {
      // Use an existing namespace: a dry run creates nothing, so the overlay's own would be missing.
      const mine = path.join(folder.path, name);
      mkdirSync(mine);
      const kustomization = { namespace, resources: [path.relative(mine, place)] };
      writeFileSync(path.join(mine, "kustomization.yaml"), JSON.stringify(kustomization));
      const taken = await plane.kubectl(["apply", "-k", mine, "--dry-run=server"]);
      assert.equal(taken.trim().split("\n").length, (await objectsOf(place)).size);
    });
  }
});
