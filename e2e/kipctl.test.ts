import assert from "node:assert/strict";
import path from "node:path";
import { before, describe, it } from "node:test";
import { cluster, eventually, run, shellPod, type Cluster, type Result } from "./cluster.ts";

const bin = path.join(import.meta.dirname, "../apps/kipctl/bin");

describe("kipctl on a cell", () => {
  let kube: Cluster;
  let cell: string;
  const kipctl = async (...args: readonly string[]): Promise<Result> =>
    await run(path.join(bin, "kipctl"), [...args, `--kubeconfig=${kube.kubeconfig}`]);
  const ok = async (...args: readonly string[]): Promise<string> => {
    const { status, stdout, stderr } = await kipctl(...args);
    assert.equal(status, 0, `kipctl ${args.join(" ")}\n${stdout}${stderr}`);
    return stdout;
  };

  before(async () => {
    kube = await cluster("kipctl");
    const labels = { team: "shop" };
    const resources = { requests: { cpu: "100m", memory: "64Mi" } };
    const pod = shellPod("web", "seq 30; while :; do sleep 1; done", {}, { resources });
    await kube.apply({ ...pod, metadata: { name: "web", labels } });
    await kube.ok("wait", "--for=condition=Ready", "pod/web", "--timeout=240s");
    cell = (await ok("get", "cells", "-n", "kipctl", "-o", "name")).trim().split("/")[1] ?? "";
  });

  it("shows the cell, the pod on it and its events", async () => {
    const cells = await ok("get", "cells", "-n", "kipctl", "-o", "wide");
    assert.match(cells, /^NAME +POD NAME +POD NAMESPACE +NODE .* PHASE +PRICE +AGE /);
    assert.match(cells, /\ncell-[0-9a-f-]+ +web +kipctl .* Claimed /);
    const pods = await ok("get", "pods", "-n", "kipctl");
    assert.match(pods, /^NAME +UNITS +RUNNING +STATUS +RESTARTS +NODE +IP +AGE\n/);
    assert.match(pods, new RegExp(`\nweb +1 +1 +Running +0 +${cell} +198\\.`));
    assert.match(await ok("get", "events", "-n", "kipctl"), / web +Pod +CellLaunched +kubelet, /);
  });

  it("shows what kip does now for each pod, and that it needs the right to", async () => {
    const text = await ok("dump", "-n", "kipctl");
    assert.match(text, /^Node kip-e2e\S* at \S+Z: 1 pods, 0 standby cells\nNAMESPACE +POD /);
    assert.match(text, /\nkipctl +web +run +Claimed +running +connected +<none> +idle /);
    const [dump] = JSON.parse(await ok("dump", "-o", "json"));
    assert.ok(dump.pods.some((worker: { cell?: string }) => worker.cell === cell));
    assert.ok(!JSON.stringify(dump).includes("seq 30"), "nothing of what pods are made of");
  });

  it("is a plugin of kubectl", async () => {
    const env = { PATH: `${bin}:${process.env["PATH"]}`, KUBECONFIG: kube.kubeconfig };
    const { stdout, stderr } = await run(kube.kubectlPath, ["kip", "get", "nodes"], { env });
    assert.match(stdout, /^NAME +STATUS +INSTANCE-TYPE +INSTANCE +IP +AGE\n/, stderr);
    assert.match(stdout, new RegExp(`\n${cell} +Claimed `));
  });

  it("explains the pod's machine, its start and its cost", async () => {
    await eventually("the times of the start", async () =>
      (await ok("explain", "kipctl/web")).includes("\n  total "),
    );
    const text = await ok("explain", "kipctl/web");
    assert.match(text, /^Pod kipctl\/web: Running, made /);
    assert.match(text, new RegExp(`\n {2}Machine +${cell}, Claimed: `));
    assert.match(text, /\n {2}Why +it asks for 100m CPU, 64Mi of memory\n/);
    assert.match(text, /\n {2}Costs +\$[\d.]+ an hour, /);
    assert.match(text, /\n {2}Waits for +nothing\n/);
    assert.match(text, /\n {2}start +[\d.]+ s /);
    assert.match(text, /\n {2}Claimed +True +\d+[sm]/);
    assert.match(text, / CellLaunched /);
  });

  it("sums up costs by label", async () => {
    const { items, total } = JSON.parse(await ok("cost", "-n", "kipctl", "-o", "json"));
    assert.equal(items.length, 1);
    assert.equal(items[0].cell, cell);
    // Machines of the local cloud cost nothing.
    assert.deepEqual(total, { perHour: 0, perMonth: 0, soFar: 0 });
    assert.match(await ok("cost", "--by", "team", "-n", "kipctl"), /\nshop +1 +\$/);
  });

  it("shows what the pod uses", async () => {
    const text = await ok("top", "-n", "kipctl");
    assert.match(text, /^NAMESPACE +NAME +CPU +CPU% +MEMORY +MEMORY% +DISK /);
    assert.match(text, /\nkipctl +web +\d+m +\d+% +\d+Mi +\d+% +(\d+Mi|<none>) /);
  });

  it("shows the last twenty lines, runs commands and passes exit codes on", async () => {
    const last = Array.from({ length: 20 }, (_, at) => `${at + 11}\n`).join("");
    assert.equal(await ok("logs", "kipctl/web"), last);
    assert.equal(await ok("logs", "web", "-n", "kipctl", "--lines=1"), "30\n");
    const kubectl = `--kubectl=${kube.kubectlPath}`;
    const flags = [`--kubeconfig=${kube.kubeconfig}`, kubectl, "-u", "main", "-n", "kipctl"];
    const words = ["exec", ...flags, "web", "--", "sh", "-c", "echo out; exit 3"];
    const { status, stdout } = await run(path.join(bin, "kipctl"), words);
    assert.deepEqual([status, stdout], [3, "out\n"]);
  });

  it("shows the console of the machine, with the log of its agent", async () => {
    const text = await ok("console", "kipctl/web");
    assert.match(text, /"msg":"Agent listens"/);
    assert.match(await ok("logs", cell, "--lines=1"), /^[^\n]+\n$/);
  });

  it("ends the machine of a deleted pod", async () => {
    assert.equal(await ok("delete", "pod", "kipctl/web"), "pod/web deleted\n");
    await eventually("the end of the cell", async () => {
      const { stdout } = await kipctl("get", "cells", "-n", "kipctl", "-o", "name");
      return stdout === "";
    });
  });
});
