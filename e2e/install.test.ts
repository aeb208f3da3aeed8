// Follows docs/install.md line by line. Kip is installed from its own image and manifests, as pods of a cluster that does not
// know kip. These pods run on cells of another kip. The installed kip uses a simulated EC2 (moto), whose machines have no
// agent. So a pod of its node gets an instance and waits for it.
import assert from "node:assert/strict";
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { forwardConnections } from "@kip/control-plane";
import { openTestEc2, type TestEc2 } from "../packages/cloud-aws/test/support/test-ec2.ts";
import { startRegistry } from "../apps/kip/src/local/run/registry.ts";
import { silentLogger } from "@kip/base";
import { isWholeRun } from "@kip/testing";
import { eventually, removeCluster, run, shellPod } from "./cluster.ts";
import { startPlainCluster, type PlainCluster } from "./plain-cluster.ts";

const root = path.join(import.meta.dirname, "..");
/** Time limit for pods on a busy computer that emulates its machines. */
const patientMs = 600_000;

/** The shell lines in a section of a page. */
function linesOf(section: string, file = "docs/install.md"): readonly string[] {
  const page = readFileSync(path.join(root, file), "utf8");
  const [, body = ""] = page.split(`\n## ${section}\n`);
  const [text = ""] = body.split("\n## ");
  const blocks = [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, code = ""]) => code);
  return blocks.flatMap((block) => block.trim().split("\n")).filter((line) => line !== "");
}

const skip = !isWholeRun && "takes ten minutes: npm run test:e2e:all";

describe("docs/install.md", { timeout: 1_500_000, skip }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), "kip-install-"));
  const stack = new AsyncDisposableStack();
  let cluster: PlainCluster;
  let ec2: TestEc2;
  let found: readonly string[] = [];

  before(
    async () => {
      // This test needs its addresses and ports. A later test starts it again.
      removeCluster();
      cluster = stack.use(await startPlainCluster(folder));
      ec2 = stack.use(await openTestEc2());
      const { hostAddress: address, servicePort, registryPort } = cluster;
      const dir = path.join(folder, "registry");
      const logFile = path.join(folder, "registry.log");
      const logger = silentLogger;
      stack.use(await startRegistry({ address, port: registryPort, dir, logFile, logger }));
      const to = { address: "127.0.0.1", port: Number(new URL(ec2.endpointURL).port) };
      stack.use(await forwardConnections({ from: { address, port: servicePort }, to }));
      // The files that the page's commands use, with a separate folder for those that the reader edits.
      cpSync(path.join(root, "deploy"), path.join(folder, "repository/deploy"), {
        recursive: true,
      });
      for (const name of ["tools", "packages", "apps", "node_modules", "package.json"])
        symlinkSync(path.join(root, name), path.join(folder, "repository", name));
      found = await objects();
    },
    { timeout: 900_000 },
  );

  after(async () => {
    await stack.disposeAsync();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  /** All API objects, except those that Kubernetes creates and deletes by itself. */
  async function objects(): Promise<readonly string[]> {
    const verbs = ["--verbs=list", "-o", "name"];
    const kinds = (await cluster.ok("api-resources", ...verbs)).trim().split("\n");
    const passing = /^(events|leases\.coordination|endpoints$|cells)/;
    const names = kinds.filter((kind) => !passing.test(kind)).join(",");
    const custom = "custom-columns=K:.kind,N:.metadata.namespace,M:.metadata.name";
    const text = await cluster.ok("get", names, "-A", "--no-headers", "-o", custom);
    return text
      .trim()
      .split("\n")
      .map((line) => line.replaceAll(/ +/g, " "))
      .sort();
  }

  /** Runs a line of the page unchanged, except for the names that a reader replaces. */
  async function follow(line: string): Promise<string> {
    const registry = `127.0.0.1:${cluster.registryPort}`;
    const image = line.includes("npm run image")
      ? ` --insecure --architecture amd64 --output ${folder}/image`
      : "";
    const command = line
      .replace("registry.example", registry)
      .replace("…", "test")
      .replace("…", "test");
    const cwd = line.includes("npm run image") ? root : path.join(folder, "repository");
    const script = `set -e; cd ${cwd}; ${command.replace(/ +#.*$/, "")}${image}`;
    const env = { ...cluster.env, AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" };
    const result = await run("sh", ["-c", script], { env, timeoutMs: patientMs });
    const text = result.stdout + result.stderr;
    assert.equal(result.status, 0, `${line}\n${text}\n${await evidence()}`);
    return text;
  }

  async function evidence(): Promise<string> {
    const parts = [
      await cluster.kubectl("get", "pods,cells,nodes", "-A", "-o", "wide"),
      await cluster.kubectl("describe", "pods", "-n", "kip-system"),
      await cluster.kubectl("logs", "-n", "kip-system", "deployment/kip", "--tail=40"),
    ];
    return parts.map(({ stdout, stderr }) => stdout + stderr).join("\n") + cluster.log();
  }

  /** Replaces what the reader has to fill in. */
  function fillIn(): void {
    const mine = path.join(folder, "repository/deploy/kustomize/overlays/mine");
    const edit = (name: string, change: (text: string) => string): void => {
      const file = path.join(mine, name);
      writeFileSync(file, change(readFileSync(file, "utf8")));
    };
    const registry = `${cluster.hostAddress}:${cluster.registryPort}`;
    // Two kips share the Cell resource here. The page says how to omit it.
    const crd = "cells.kip.elotl.co";
    const omit = `patches:\n  - patch: |-\n      apiVersion: apiextensions.k8s.io/v1\n      kind: CustomResourceDefinition\n      metadata:\n        name: ${crd}\n      $patch: delete\n`;
    edit("kustomization.yaml", (text) => text.replace("registry.example", registry) + omit);
    const endpoint = `http://${cluster.hostAddress}:${cluster.servicePort}`;
    edit("provider.yaml", (text) =>
      text
        .replace("subnet-0123456789abcdef0", `${ec2.subnetId}\n    endpointURL: ${endpoint}`)
        .replace("ami-0123456789abcdef0", ec2.image),
    );
  }

  const holder = async (): Promise<string> => {
    const lease = ["get", "lease", "kip.kip", "-n", "kube-node-lease"];
    const { stdout } = await cluster.kubectl(...lease, "-o", "jsonpath={.spec.holderIdentity}");
    return stdout.split("_")[0] ?? "";
  };
  const ready = async (): Promise<boolean> =>
    (await cluster.kubectl("get", "node", "kip")).stdout.includes(" Ready ");

  it("begins as the README says", () => {
    const [image = "", apply = ""] = linesOf("Your own cluster", "README.md");
    for (const line of [image, apply]) assert.ok(linesOf("Install").includes(line), line);
  });

  it("installs kip as two pods, of which one registers the node", async () => {
    for (const line of linesOf("Install")) {
      const text = await follow(line);
      if (line.startsWith("cp ")) fillIn();
      if (line.includes("get node")) assert.match(text, /^kip +Ready/m);
    }
    const areReady = async (): Promise<boolean> => {
      const pods = await cluster.ok("get", "pods", "-n", "kip-system", "--no-headers");
      return pods.match(/^kip-\S+ +1\/1 +Running +0/gm)?.length === 2;
    };
    await eventually("both replicas to be ready", areReady, patientMs);
    assert.ok((await holder()).startsWith("kip-"));
  });

  it("runs a pod of the node on an instance of its own", async () => {
    const tolerations = [{ operator: "Exists" }];
    const pod = JSON.stringify(shellPod("hello", "sleep 600", { nodeName: "kip", tolerations }));
    const applied = await run("kubectl", ["apply", "-f", "-"], { env: cluster.env, input: pod });
    assert.equal(applied.status, 0, applied.stderr);
    await eventually("an instance", async () => (await instance()).startsWith("i-"), patientMs);
  });

  const instance = async (): Promise<string> => {
    const cells = await cluster.ok("get", "cells", "-o", "json");
    const { items } = JSON.parse(cells) as {
      items: { spec: { nodeName: string }; status?: { instanceID?: string } }[];
    }; // kubectl's format
    const cell = items.find(({ spec }) => spec.nodeName === "kip");
    return cell?.status?.instanceID ?? "";
  };

  it("goes on when the replica that runs the node is killed", async () => {
    const [first, machine] = [await holder(), await instance()];
    await cluster.ok("delete", "pod", first, "-n", "kip-system", "--force", "--grace-period=0");
    const takenOver = async (): Promise<boolean> => ![first, ""].includes(await holder());
    await eventually("the other replica to take over", takenOver, patientMs);
    await eventually("the node to be ready", ready, patientMs);
    assert.equal(await instance(), machine);
    await cluster.ok("rollout", "status", "deployment/kip", "-n", "kip-system", "--timeout=600s");
  });

  /** An image cache overlay for this cluster, which has neither an NFS server nor an ordinary node. */
  function writeImageCacheOverlay(image: string): void {
    const base = path.join(folder, "repository/deploy/image-cache/base");
    const mine = path.join(folder, "repository/deploy/image-cache/overlays/mine");
    mkdirSync(mine);
    const [name = "", tag] = image.split(/:(?=[^:]+$)/);
    const volume = [{ op: "replace", path: "/spec/template/spec/volumes/1", value: local }];
    const anyNode = [{ op: "remove", path: "/spec/template/spec/affinity" }];
    const target = { kind: "Deployment", name: "kip-image-cache" };
    const overlay = {
      resources: ["../../base"],
      images: [{ name: "kip", newName: name, newTag: tag }],
      patches: [...volume, ...anyNode].map((patch) => ({ target, patch: JSON.stringify([patch]) })),
    };
    writeFileSync(path.join(mine, "kustomization.yaml"), JSON.stringify(overlay));
    appendFileSync(path.join(base, "images.txt"), `${image}\n`);
    const host = `${cluster.hostAddress}:${cluster.registryPort}`;
    const registries = JSON.stringify([{ host, endpoint: `http://${host}` }]);
    appendFileSync(path.join(base, "provider.yaml"), `\nregistries: ${registries}\n`);
  }
  const local = { name: "cache", emptyDir: {} };

  it("runs the image cache, which fetches the images of its list, and removes it", async () => {
    const image = `${cluster.hostAddress}:${cluster.registryPort}/kip:0.1.0`;
    writeImageCacheOverlay(image);
    for (const line of linesOf("Install", "docs/image-cache.md")) await follow(line);
    const lines = ["logs", "-n", "kip-system", "deployment/kip-image-cache"];
    const isFetched = async (): Promise<boolean> => {
      const put = (await cluster.ok(...lines))
        .split("\n")
        .filter((line) => line.includes('"Put an image into the cache"'));
      return put.some((line) => line.includes(`"image":"${image}"`));
    };
    await eventually("the image in the cache", isFetched, patientMs).catch(async (error) => {
      throw new Error(`${(await cluster.kubectl(...lines)).stdout}\n${await evidence()}`, {
        cause: error,
      });
    });
    const remove = "kubectl delete -k deploy/image-cache/overlays/mine";
    assert.ok(readFileSync(path.join(root, "docs/image-cache.md"), "utf8").includes(remove));
    await follow(remove);
  });

  it("leaves nothing when it is removed", async () => {
    for (const line of linesOf("Remove")) {
      const text = await follow(line);
      if (!line.includes("kip uninstall")) continue;
      assert.match(text, /The Cell resource stays: node "machines" still uses it/);
      assert.match(text, /^Nothing that costs money/m);
      assert.match(await follow(line), /^Nothing that costs money/m, "repeated");
    }
    const isGone = async (): Promise<boolean> =>
      JSON.stringify(await objects()) === JSON.stringify(found);
    await eventually("the objects of before", isGone, 120_000).catch(async () => {
      assert.deepEqual(await objects(), found);
    });
    const leases = await cluster.ok("get", "leases", "-A", "-o", "name");
    assert.doesNotMatch(leases, /\/kip(?:\.kip)?$/m);
    const driver = await ec2.open();
    try {
      const left = (await driver.list()).filter(({ state }) => state !== "terminated");
      assert.deepEqual(left, []);
    } finally {
      await driver[Symbol.asyncDispose]();
    }
  });
});
