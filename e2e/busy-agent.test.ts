// The agent of a cell whose pod has thirty containers, and one that gets a hundred commands at once.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { ContainerStatus, Pod } from "@kip/k8s-types";
import { isWholeRun } from "@kip/testing";
import { cluster, eventually, type Cluster } from "./cluster.ts";

const skip = !isWholeRun && "takes minutes: npm run test:e2e:all";
const image = "kip.local/demo:latest";
const containers = 30;
const commands = 100;

describe("the agent of a cell", { skip }, () => {
  let kube: Cluster;

  before(async () => {
    kube = await cluster("busy-agent");
  });

  after(async () => {
    await kube.kubectl("delete", "pod", "--all", "--wait=false");
  });

  const get = async (name: string): Promise<Pod> =>
    JSON.parse(await kube.ok("get", "pod", name, "-o", "json")) as Pod;

  const statusesOf = async (name: string): Promise<readonly ContainerStatus[]> =>
    (await get(name)).status?.containerStatuses ?? [];

  it(`keeps ${containers} containers with probes ready, restarts the one that fails, and ends them`, async () => {
    const names = Array.from({ length: containers }, (_, index) => `c${index}`);
    await kube.apply(podOf("many", names.map(probedContainer)));
    await kube.ok("wait", "--for=condition=Ready", "pod/many", "--timeout=600s");
    const first = await statusesOf("many");
    assert.deepEqual(first.map(({ name }) => name).sort(), names.toSorted());
    for (const { name, ready, started, restartCount, state } of first)
      assert.deepEqual(
        [ready, started, restartCount, state?.running === undefined],
        [true, true, 0, false],
        name,
      );
    for (const name of ["c0", "c1", "c2", `c${containers - 1}`]) {
      // The API server passes on an interrupted log as one that has ended.
      await eventually(`the log of ${name}`, async () => {
        return (await kube.kubectl("logs", "many", "-c", name)).stdout === `this is ${name}\n`;
      });
      const exec = ["exec", "many", "-c", name, "--", "sh", "-c", "echo $NAME"];
      assert.equal(await kube.ok(...exec), `${name}\n`);
    }
    await kube.ok("exec", "many", "-c", "c3", "--", "rm", "/tmp/alive");
    await eventually(
      "the restart of the container whose liveness probe fails",
      async () => {
        const failed = (await statusesOf("many")).find(({ name }) => name === "c3");
        return failed?.restartCount === 1 && failed.ready;
      },
      240_000,
    );
    const others = (await statusesOf("many")).filter(({ name }) => name !== "c3");
    assert.ok(others.every(({ ready, restartCount }) => ready && restartCount === 0));
    await kube.ok("delete", "pod", "many", "--timeout=240s");
  });

  it(`answers ${commands} commands at once, each of them, while probes and logs go on`, async () => {
    const often = { periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 3 };
    const count = { exec: { command: ["sh", "-c", "echo >>/tmp/probes"] }, ...often };
    const write = "i=0; while :; do echo line $i; i=$((i + 1)); sleep 1; done";
    await kube.apply(
      podOf("flood", [
        { name: "main", image, command: ["sh", "-c", write], livenessProbe: count },
        { name: "beside", image, command: ["sleep", "100000"] },
      ]),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/flood", "--timeout=240s");
    const probes = async (): Promise<number> =>
      Number(await kube.ok("exec", "flood", "-c", "main", "--", "sh", "-c", "wc -l </tmp/probes"));
    const before = await probes();
    const script = (index: number): string => `echo ${index}; sleep 5; exit ${index % 50}`;
    const over = new AbortController();
    const flood = Promise.all(
      Array.from({ length: commands }, async (_, index) => {
        const inPod = ["exec", "flood", "-c", index % 2 === 0 ? "main" : "beside"];
        return await kube.kubectl(...inPod, "--", "sh", "-c", script(index));
      }),
    ).finally(() => over.abort());
    let logs = 0;
    while (!over.signal.aborted) {
      // As for a kubelet, output that is written during the search for the last line is also shown.
      assert.match(await kube.ok("logs", "flood", "-c", "main", "--tail=1"), /^(line \d+\n)+$/);
      logs += 1;
    }
    for (const [index, { status, stdout, stderr }] of (await flood).entries())
      assert.deepEqual([stdout, status], [`${index}\n`, index % 50], `${index}: ${stderr}`);
    assert.ok(logs > 1, `${logs} times the log was read meanwhile`);
    assert.ok((await probes()) > before);
    const lines = (await kube.ok("logs", "flood", "-c", "main")).trimEnd().split("\n");
    assert.deepEqual(
      lines,
      lines.map((_, index) => `line ${index}`),
    );
    const statuses = await statusesOf("flood");
    assert.ok(statuses.every(({ ready, restartCount }) => ready && restartCount === 0));
    await kube.ok("delete", "pod", "flood", "--timeout=240s");
  });
});

function podOf(name: string, list: readonly object[]): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, annotations: { "pod.elotl.co/instance-type": "local.small" } },
    spec: { terminationGracePeriodSeconds: 1, containers: list },
  };
}

/** A container with all three probes. One in ten uses commands, which are slow on an emulated CPU. */
function probedContainer(name: string, index: number): object {
  const port = 8000 + index;
  const kind = index % 2 === 0 ? { httpGet: { port, path: "/alive" } } : { tcpSocket: { port } };
  const command = { exec: { command: ["test", "-e", "/tmp/alive"] } };
  const probe = { ...(index % 10 === 3 ? command : kind), periodSeconds: 10, timeoutSeconds: 60 };
  const serve = `echo this is ${name}; touch /tmp/alive; exec httpd -f -p ${port} -h /tmp`;
  return {
    name,
    image,
    command: ["sh", "-c", serve],
    env: [{ name: "NAME", value: name }],
    startupProbe: { ...probe, periodSeconds: 5, failureThreshold: 60 },
    readinessProbe: probe,
    livenessProbe: { ...probe, failureThreshold: 2 },
  };
}
