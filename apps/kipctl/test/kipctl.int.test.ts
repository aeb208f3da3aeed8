// kipctl with a real API server, and nodes, pods, Cells and events as kip writes them, but without kip.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import {
  createApiClient,
  ignoreNotFound,
  loadKubeConfig,
  paths,
  type ApiClient,
} from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { installCells } from "@kip/kip";

const bin = path.join(import.meta.dirname, "../bin");
let plane: SharedControlPlane;
let client: ApiClient;
let namespace: string;
let node: string;
let cell: string;

async function run(program: string, args: readonly string[], input = "") {
  const env = {
    ...process.env,
    KUBECONFIG: plane.kubeconfigPath,
    PATH: `${bin}:${process.env["PATH"]}`,
  };
  const child = spawn(program, args, { env });
  const exit = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code));
  });
  child.stdin.end(input);
  const [status, stdout, stderr] = await Promise.all([
    exit,
    text(child.stdout),
    text(child.stderr),
  ]);
  return { status, stdout, stderr };
}

const kipctl = async (...args: readonly string[]) => await run(path.join(bin, "kipctl"), args);

async function ok(...args: readonly string[]): Promise<string> {
  const { status, stdout, stderr } = await kipctl(...args);
  assert.equal(status, 0, `kipctl ${args.join(" ")}: ${stderr}`);
  return stdout;
}

before(
  async () => {
    plane = await sharedControlPlane();
    const config = await loadKubeConfig({ path: plane.kubeconfigPath });
    const options = { userAgent: "test/1", logger: silentLogger, clock: systemClock };
    client = createApiClient(config, options);
    await installCells(client);
    namespace = await plane.createNamespace("kipctl");
    node = `node-${namespace}`;
    await makeObjects();
  },
  { timeout: 900_000 },
);

after(async () => {
  for (const gone of [cell && paths.cells(cell), node && paths.nodes(node)])
    if (gone) await ignoreNotFound(client.delete(gone));
  client?.close();
  await plane?.[Symbol.asyncDispose]();
});

/** Creates the objects that kip has written when the pod `web` has started. */
async function makeObjects(): Promise<void> {
  const labels = { "kip.elotl.co/cloud": "local", "kip-test": namespace };
  await client.create(paths.nodes(), { kind: "Node", metadata: { name: node, labels } });
  const pod = await client.create<Pod>(paths.pods(namespace), {
    metadata: { name: "web", labels: { team: "shop" } },
    spec: {
      nodeName: node,
      containers: [{ name: "main", image: "i" }],
      terminationGracePeriodSeconds: 0,
    },
  });
  const podRef = { namespace, name: "web", uid: pod.metadata.uid };
  cell = `cell-${podRef.uid}`;
  const object = {
    apiVersion: "kip.elotl.co/v1beta1",
    kind: "Cell",
    metadata: { name: cell, labels: { team: "shop", "kip.elotl.co/node": node } },
    spec: {
      podRef,
      nodeName: node,
      controllerID: "c",
      instanceType: "t3.nano",
      launchType: "spot",
      zone: "z1",
      image: "i",
      rootDiskBytes: 2 ** 30,
      privateIPOnly: true,
      pricePerHour: 0.25,
      attempt: 0,
      restartCounts: {},
    },
  };
  await client.create(paths.cells(), object);
  const status = {
    phase: "Claimed",
    instanceID: "i-1",
    ip: "10.0.0.7",
    startMs: { api: 20, cloud: 500 },
  };
  await client.patch(paths.cells(cell, "status"), { status }, "merge");
  await client.create(paths.events(namespace), {
    metadata: { name: "web.1" },
    involvedObject: { kind: "Pod", ...podRef },
    reason: "CellCreated",
    message: "A cell was created",
    type: "Normal",
    source: { component: "kubelet", host: node },
    lastTimestamp: "2026-01-01T00:00:00Z",
  });
}

describe("kipctl get", () => {
  it("shows the pods of kip's nodes with their cells", async () => {
    await client.create(paths.pods(namespace), {
      metadata: { name: "elsewhere" },
      spec: { containers: [{ name: "main", image: "i" }] },
    });
    const shown = await ok("get", "pods", "-n", namespace);
    assert.match(shown, new RegExp(`^NAME .*\nweb +1 +0 +Pending +0 +${cell} +<none> +\\d+s\n$`));
    assert.match(await ok("get", "po", "-A"), new RegExp(`\n${namespace} +web +1 `));
    assert.equal(await ok("get", "pods", "-n", namespace, "-l", "team=other"), "");
  });

  it("takes the namespace of a pod with its name", async () => {
    assert.match(await ok("get", "pod", `${namespace}/web`), new RegExp(`\nweb .* ${cell} `));
    assert.match(
      await ok("get", "pod", "-A", `${namespace}/web`),
      new RegExp(`\n${namespace} +web `),
    );
    const { status, stdout, stderr } = await kipctl(
      "get",
      "pods",
      `${namespace}/web`,
      "default/web",
    );
    assert.match(stdout, new RegExp(`^NAMESPACE .*\n${namespace} +web .*\n$`));
    assert.deepEqual([status, stderr], [1, 'There is no pod "default/web"\n']);
  });

  it("shows cells as kubectl does, and as the original's nodes", async () => {
    const line = `${cell} +web +${namespace} +${node} +spot +t3.nano +i-1 +10.0.0.7 +Claimed +\\$0.25 +\\d+s`;
    assert.match(await ok("get", "cells", "-n", namespace), new RegExp(`\n${line}\n$`));
    assert.match(await ok("get", "cl", "-l", `kip.elotl.co/node=${node}`), new RegExp(line));
    assert.match(
      await ok("get", "node", cell),
      new RegExp(`\n${cell} +Claimed +t3.nano \\(spot\\) +i-1 +10.0.0.7 +\\d+s\n`),
    );
  });

  it("shows the events of kip's nodes", async () => {
    const shown = await ok("get", "events", "-n", namespace);
    assert.match(
      shown,
      new RegExp(
        `\n2026-01-01T00:00:00Z +web +Pod +CellCreated +kubelet, ${node} +A cell was created\n$`,
      ),
    );
  });

  it("prints objects whole for programs", async () => {
    const one = JSON.parse(await ok("get", "cell", cell, "-o", "json"));
    assert.deepEqual(
      [one.kind, one.apiVersion, one.spec.zone],
      ["Cell", "kip.elotl.co/v1beta1", "z1"],
    );
    const list = JSON.parse(await ok("get", "pods", "-n", namespace, "-ojson"));
    assert.deepEqual(
      [list.kind, list.items[0].kind, list.items[0].apiVersion],
      ["List", "Pod", "v1"],
    );
    assert.match(await ok("get", "pod", "web", "-n", namespace, "-o", "yaml"), /\nkind: Pod\n/);
    assert.equal(
      await ok("get", "cells", "-n", namespace, "-o", "name"),
      `cell.kip.elotl.co/${cell}\n`,
    );
    // kubectl accepts the output.
    const again = await run(
      plane.kubectlPath,
      ["get", "-f", "-", "-o", "name"],
      JSON.stringify(one),
    );
    assert.equal(again.stdout, `cell.kip.elotl.co/${cell}\n`, again.stderr);
  });

  it("says what is not there", async () => {
    const { status, stdout, stderr } = await kipctl("get", "pods", "web", "none", "-n", namespace);
    assert.equal(status, 1);
    assert.match(stdout, /\nweb /);
    assert.equal(stderr, 'There is no pod "none"\n');
    assert.equal((await kipctl("get", "cell", "cell-none")).status, 1);
  });
});

describe("kipctl", () => {
  it("is a plugin of kubectl", async () => {
    const { stdout, stderr } = await run(plane.kubectlPath, ["kip", "cost", "-n", namespace]);
    assert.match(stdout, /\nTOTAL +- +- +- +\$0\.25 +\$182\.50 /, stderr);
  });

  it("sums costs up by label and by namespace", async () => {
    assert.match(
      await ok("cost", "--by=team", "-n", namespace),
      /^TEAM +CELLS .*\nshop +1 +\$0\.25 /,
    );
    const { items, total } = JSON.parse(
      await ok("cost", "--by=namespace", "-n", namespace, "-o", "json"),
    );
    assert.deepEqual([items[0].value, items[0].cells, total.perMonth], [namespace, 1, 182.5]);
  });

  it("explains a pod", async () => {
    const shown = await ok("explain", `${namespace}/web`);
    assert.match(
      shown,
      new RegExp(
        `\n {2}Machine +${cell}, Claimed: t3.nano \\(spot\\), zone z1, instance i-1, at 10.0.0.7\n`,
      ),
    );
    assert.match(shown, /\n {2}total +0\.52 s\n/);
    assert.match(shown, /\nEvents:\n[^]* Normal +CellCreated +A cell was created\n$/);
    const { status, stderr } = await kipctl("explain", "none", "-n", namespace);
    assert.equal(status, 1);
    assert.match(
      stderr,
      /^kipctl: Cannot find pod "none" in namespace ".*"\n {2}kipctl get pods -A /,
    );
  });

  it("leaves out of an error what would control a terminal", async () => {
    const { status, stderr } = await kipctl("logs", `${namespace}/web`, "-c", "a\u001b[2Jb\u0007c");
    assert.equal(status, 1);
    assert.match(stderr, /container abc is not valid for pod web\n$/);
  });

  it("says that a node gives no usage", async () => {
    const { stderr } = await kipctl("top", "-n", namespace);
    assert.match(stderr, new RegExp(`Node ${node} does not say what its pods use: `));
  });

  it("shows the versions of server and nodes", async () => {
    const { kipctl: own, kip, server } = JSON.parse(await ok("version"));
    assert.equal(own, "0.1.0");
    assert.ok(Object.hasOwn(kip, node));
    assert.equal(server.gitVersion, plane.version);
  });

  it("completes names of the cluster", async () => {
    assert.equal(await ok("__complete", "logs", "-n", namespace, "w"), "web\n:4\n");
    const { stdout } = await run(path.join(bin, "kubectl_complete-kip"), [
      "get",
      "cell",
      cell.slice(0, -4),
    ]);
    assert.equal(stdout, `${cell}\n:4\n`);
    const flags = "--kubeconfig=/does/not/exist";
    assert.equal(await ok("__complete", "logs", flags, "w"), ":4\n");
  });

  it("completes in bash", async () => {
    const script = `source <(kipctl completion bash)
      COMP_WORDS=(kipctl get no) COMP_CWORD=2; _kipctl; echo "\${COMPREPLY[@]}"
      COMP_WORDS=(kipctl logs -n ${namespace} "") COMP_CWORD=4; _kipctl; echo "\${COMPREPLY[@]}"`;
    const { stdout, stderr } = await run("bash", ["-c", script]);
    assert.equal(stdout, "nodes\nweb\n", stderr);
  });

  it("says that kubectl is missing, and what a pod without a node has no logs of", async () => {
    const exec = await kipctl("exec", "--kubectl=/no/kubectl", "web", "-n", namespace, "--", "ls");
    assert.equal(exec.status, 1);
    assert.match(
      exec.stderr,
      /^kipctl: Cannot run \/no\/kubectl: there is no such program\n {2}exec and attach need kubectl/,
    );
    const logs = await kipctl("logs", "elsewhere", "-n", namespace);
    assert.equal(logs.status, 1);
    assert.match(logs.stderr, /^kipctl: /);
  });
});

describe("kipctl create, update and delete", () => {
  const manifest = (labels: object) =>
    JSON.stringify({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "made", labels },
      spec: { containers: [{ name: "main", image: "i" }], terminationGracePeriodSeconds: 0 },
    });
  const withInput = async (input: string, ...args: readonly string[]) =>
    await run(path.join(bin, "kipctl"), [...args, "-f", "-", "-n", namespace], input);

  it("write pods of a manifest", async () => {
    const made = await withInput(manifest({ a: "1" }), "create");
    assert.deepEqual([made.status, made.stdout], [0, "pod/made created\n"], made.stderr);
    const again = await withInput(manifest({}), "create");
    assert.equal(again.status, 1);
    assert.match(again.stderr, /already exists/);
    const updated = await withInput(manifest({ a: "2" }), "update");
    assert.equal(updated.stdout, "pod/made updated\n", updated.stderr);
    const { metadata } = await client.get<Pod>(paths.pods(namespace, "made"));
    assert.equal(metadata.labels?.["a"], "2");
    assert.equal((await withInput(manifest({}), "delete")).stdout, "pod/made deleted\n");
  });

  it("delete a cell", async () => {
    assert.equal(await ok("delete", "node", cell), `cell/${cell} deleted\n`);
    assert.equal(await ignoreNotFound(client.get(paths.cells(cell))), undefined);
    const { status, stderr } = await kipctl("delete", "cell", cell);
    assert.equal(status, 1);
    assert.match(stderr, /there is no such cell\n/);
  });
});
