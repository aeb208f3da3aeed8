import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { networkInterfaces, tmpdir } from "node:os";
import path from "node:path";
import { describe, it } from "node:test";
import { CommandError, parseOptions, runCommand, silentLogger, systemClock } from "@kip/base";
import { sharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, paths, type ApiClient } from "@kip/k8s-client";
import type { Node } from "@kip/k8s-types";
import { nodeSuite } from "@kip/virtual-kubelet/node-suite";
import { commandOptions } from "../src/options.ts";
import { runNode } from "../src/run.ts";

/** The API server's proxy refuses loopback addresses. */
const hostAddress = Object.values(networkInterfaces())
  .flat()
  .find((each) => each?.family === "IPv4" && !each.internal)?.address;
const program = path.join(import.meta.dirname, "../bin/virtual-kubelet");
const nodeName = `mock-${randomBytes(3).toString("hex")}`;
const counts = { setUps: 0, tearDowns: 0 };
const ending = new AsyncDisposableStack();
let metricsPort = 0;
let admin: ApiClient;

const skipAll = hostAddress === undefined ? "this machine has no address but loopback" : undefined;

nodeSuite({
  skip: (name) => skipAll ?? (name.includes("K9") ? "to see that it can be skipped" : undefined),
  setUp: async () => {
    counts.setUps++;
    const plane = ending.use(await sharedControlPlane());
    const folder = await mkdtemp(path.join(tmpdir(), "vk-app-"));
    ending.defer(() => rm(folder, { recursive: true }));
    const file = async (name: string, text: string): Promise<string> => {
      await writeFile(path.join(folder, name), text);
      return path.join(folder, name);
    };
    const pair = await plane.issueKubeletCertificate(nodeName, [hostAddress ?? ""]);
    const options = parseOptions(
      commandOptions,
      [
        `--kubeconfig=${plane.kipKubeconfigPath}`,
        `--nodename=${nodeName}`,
        "--provider=mock",
        `--provider-config=${await file("mock.json", JSON.stringify({ [nodeName]: { cpu: "7", pods: "30", others: { "example.test/gpu": "2" } } }))}`,
        `--node-ip=${hostAddress}`,
        "--kubelet-port=0",
        "--metrics-addr=127.0.0.1:0",
        "--taint=example.test/virtual",
        `--tls-cert-file=${await file("tls.crt", pair.certificate)}`,
        `--tls-private-key-file=${await file("tls.key", pair.key)}`,
        `--client-ca-file=${await file("ca.crt", plane.ca)}`,
        "--log-level=error",
      ],
      {},
    );
    const stop = new AbortController();
    const ready = Promise.withResolvers<void>();
    const running = runNode(options, {}, stop.signal, ({ metrics = 0 }) => {
      metricsPort = metrics;
      ready.resolve();
    });
    running.catch(ready.reject);
    ending.defer(async () => {
      stop.abort();
      await running;
      await admin.delete(paths.nodes(nodeName)).catch(() => {});
      admin.close();
    });
    await ready.promise;
    admin = createApiClient(await loadKubeConfig({ path: plane.kubeconfigPath }), {
      userAgent: "test/1",
      logger: silentLogger,
      clock: systemClock,
    });
    const namespace = await plane.createNamespace();
    return { client: admin, nodeName, namespace };
  },
  tearDown: async () => {
    counts.tearDowns++;
    try {
      if (skipAll === undefined) await checkNode();
    } finally {
      await ending.disposeAsync();
    }
  },
});

/**
 * Checks that the node shows the values from the flags and the mock provider's file, and that the metrics include the suite's
 * pods.
 */
async function checkNode(): Promise<void> {
  const node = await admin.get<Node>(paths.nodes(nodeName));
  assert.equal(node.status?.capacity?.["cpu"], "7");
  assert.equal(node.status.capacity["example.test/gpu"], "2");
  const taint = node.spec?.taints?.find(({ key }) => key === "example.test/virtual");
  assert.deepEqual([taint?.value, taint?.effect], ["mock", "NoSchedule"]);
  const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  assert.match(metrics, /virtual_kubelet_pod_start_duration_seconds_count [1-9]/);
  assert.match(
    metrics,
    /virtual_kubelet_api_request_duration_seconds_count\{method="PATCH",code="200"\}/,
  );
  assert.match(metrics, /virtual_kubelet_pods\{state="idle"\}/);
}

describe("the suite for nodes", () => {
  it("is set up and torn down once, and its tests can be skipped (U1)", () => {
    assert.deepEqual(counts, { setUps: 1, tearDowns: 1 });
  });
});

describe("virtual-kubelet", () => {
  const refused: readonly (readonly [string, readonly string[], RegExp])[] = [
    ["a flag that does not exist", ["--provder=mock"], /Did you mean --provider\?/],
    [
      "a provider that does not exist",
      ["--provider=mok", "--kubeconfig=KC", "--node-ip=192.0.2.1", "--metrics-addr=off"],
      /Did you mean mock\?/,
    ],
    ["no provider", ["--kubeconfig=KC", "--metrics-addr=off"], /--provider is not given/],
    ["an unknown provider's name", ["providers", "nope"], /Cannot find provider "nope"/],
  ];
  for (const [name, args, message] of refused)
    it(`refuses ${name}, and says what to do`, async () => {
      await using plane = await sharedControlPlane();
      const words = args.map((each) => each.replace("KC", plane.kipKubeconfigPath));
      await assert.rejects(runCommand(program, words), (error) => {
        assert.match(CommandError.is(error) ? error.stderr : String(error), message);
        return true;
      });
    });

  it("tells its version and its providers", async () => {
    assert.match((await runCommand(program, ["version"])).stdout, /^virtual-kubelet \d/);
    assert.equal((await runCommand(program, ["providers"])).stdout, "mock\n");
    const help = (await runCommand(program, ["--help"])).stdout;
    assert.match(help, /--full-resync-period/);
    assert.doesNotMatch(help, /--pod-sync-workers/); // this flag has no effect
  });
});
