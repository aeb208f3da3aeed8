// A kip that starts while a running pod's Secret is missing, with a real API server and simulated machines.
import path from "node:path";
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, type ApiClient } from "@kip/k8s-client";
import { temporaryFolder } from "@kip/testing";
import { openSimulatedCells } from "./simulated-cells.ts";
import { startSimulatedNode } from "./simulated-node.ts";

const nodeName = "resumed";
const folder = temporaryFolder();
const cells = openSimulatedCells(11);

describe("kip, started while a Secret of a running pod is missing", { timeout: 170_000 }, () => {
  let plane: SharedControlPlane;
  let client: ApiClient;
  let driver: CloudDriver;
  let kubectl: (...args: readonly string[]) => Promise<string>;

  before(
    async () => {
      plane = await sharedControlPlane();
      const namespace = await plane.createNamespace("resumed");
      kubectl = async (...args) => await plane.kubectl(["-n", namespace, ...args]);
      const config = await loadKubeConfig({ path: plane.kubeconfigPath });
      const shared = { clock: systemClock, logger: silentLogger };
      client = createApiClient(config, { ...shared, userAgent: "kip/test" });
      driver = cells.cloud.open({ owner: nodeName });
    },
    { timeout: 900_000 },
  );

  after(async () => {
    client?.close();
    await driver?.[Symbol.asyncDispose]();
    await cells[Symbol.asyncDispose]();
    await plane?.[Symbol.asyncDispose]();
    folder.remove();
  });

  const start = async (): Promise<AsyncDisposable> => {
    const logDir = path.join(folder.path, "logs");
    return await startSimulatedNode({ client, driver, controllerID: nodeName, nodeName, logDir });
  };

  it("notices the end of the pod's machine, and ends the pod", async () => {
    await kubectl("create", "secret", "generic", "db", "--from-literal=KEY=value");
    const containers = [
      { name: "web", image: "example.test/web:1", envFrom: [{ secretRef: { name: "db" } }] },
    ];
    const tolerations = [{ operator: "Exists" }];
    const spec = { nodeName, tolerations, containers, restartPolicy: "Never" };
    const flags = ["--image=example.test/web:1", "--restart=Never"];
    const first = await start();
    await kubectl("run", "web", ...flags, `--overrides=${JSON.stringify({ spec })}`);
    await kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s");
    await first[Symbol.asyncDispose]();
    await kubectl("delete", "secret", "db");

    await using _second = await start();
    const [machine] = await driver.list();
    assert.ok(machine);
    await cells.cloud.faults.kill(machine.id);
    await kubectl("wait", "--for=jsonpath={.status.phase}=Failed", "pod/web", "--timeout=30s");
    const status = await kubectl("get", "pod", "web", "-o", "jsonpath={.status.reason}");
    assert.equal(status, "CellLost");
    await kubectl("delete", "pod", "web", "--timeout=60s");
    assert.deepEqual(await driver.list(), []);
  });
});
