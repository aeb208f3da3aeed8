// What provider.yaml says of cells, on real machines: their image, and the operator's cloud-config.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { parse, stringify } from "yaml";
import {
  cluster,
  eventually,
  killProvider,
  machineProcesses,
  readProviderConfig,
  shellPod,
  stateDir,
  writeProviderConfig,
  type Cluster,
} from "./cluster.ts";

const imagesDir = path.join(stateDir, "images");
const cloudInitFile = path.join(stateDir, "cells.yaml");
const mark = "kip.e2e=other";

interface Config {
  readonly cloud: { readonly local: { readonly imagesDir: string } };
  readonly cells: { readonly bootImageSpec: { readonly id: string } };
}

/** A folder of two images with the same files. The kernel of the second one has another command line. */
function writeImages(from: string): void {
  rmSync(imagesDir, { recursive: true, force: true });
  mkdirSync(imagesDir, { recursive: true });
  symlinkSync(from, path.join(imagesDir, "usual"));
  const image = JSON.parse(readFileSync(path.join(from, "image.json"), "utf8")) as {
    readonly [field: string]: string;
  };
  const other = path.join(imagesDir, "other");
  mkdirSync(other);
  for (const field of ["kernel", "initrd", "rootDisk"]) {
    const name = image[field] ?? "";
    symlinkSync(path.join(from, name), path.join(other, name));
  }
  const changed = { ...image, cmdline: `${image["cmdline"]} ${mark}` };
  writeFileSync(path.join(other, "image.json"), JSON.stringify(changed));
}

describe("cells", { timeout: 900_000 }, () => {
  let kube: Cluster;
  let original: string;
  before(async () => {
    kube = await cluster("cell-settings");
    original = readProviderConfig();
    const config = parse(original) as Config;
    const { local } = config.cloud;
    const [id = ""] = config.cells.bootImageSpec.id.split(",");
    writeImages(path.join(local.imagesDir, id));
    const own = {
      write_files: [{ path: "/etc/kip-e2e/written", content: "by cloud-init\n" }],
      runcmd: ["cp /etc/kip-e2e/written /etc/kip-e2e/copied"],
    };
    writeFileSync(cloudInitFile, `#cloud-config\n${stringify(own)}`);
    const images = { bootImageSpec: { id: "usual" }, bootImages: { second: { id: "other" } } };
    const changed = {
      ...config,
      cloud: { local: { ...local, imagesDir, templates: false } },
      cells: { ...config.cells, ...images, cloudInitFile },
    };
    writeProviderConfig(stringify(changed));
    await killProvider();
    const second = { "pod.elotl.co/boot-image": "second" };
    for (const [name, annotations] of Object.entries({ usual: {}, second })) {
      const volumes = [{ name: "cell", hostPath: { path: "/etc/kip-e2e" } }];
      const volumeMounts = [{ name: "cell", mountPath: "/cell" }];
      const pod = shellPod(name, "sleep 3600", { volumes }, { volumeMounts });
      await kube.apply({ ...pod, metadata: { name, annotations } });
    }
    await kube.ok("wait", "--for=condition=Ready", "pod", "--all", "--timeout=400s");
  });
  after(async () => {
    await kube?.kubectl("delete", "pod", "--all", "--timeout=120s");
    writeProviderConfig(original);
    await killProvider();
    await eventually("the machines to go", () => machineProcesses().length === 0);
    rmSync(imagesDir, { recursive: true, force: true });
    rmSync(cloudInitFile, { force: true });
  });

  const output = async (pod: string, ...command: readonly string[]): Promise<string> =>
    await kube.ok("exec", pod, "--", ...command);

  it("boot the image of bootImageSpec, or the one of bootImages that the pod names", async () => {
    const image = "custom-columns=POD:.spec.podRef.name,IMAGE:.spec.image";
    const cells = (await kube.ok("get", "cells", "--no-headers", "-o", image)).trim().split("\n");
    assert.deepEqual(cells.map((line) => line.split(/\s+/).join(" ")).sort(), [
      "second other",
      "usual usual",
    ]);
    assert.ok((await output("second", "cat", "/proc/cmdline")).includes(mark));
    assert.ok(!(await output("usual", "cat", "/proc/cmdline")).includes(mark));
  });

  it("apply the cloud-config of cloudInitFile, besides kip's own user data", async () => {
    for (const pod of ["usual", "second"])
      for (const file of ["written", "copied"])
        assert.equal(
          await output(pod, "cat", `/cell/${file}`),
          "by cloud-init\n",
          `${pod} ${file}`,
        );
  });
});
