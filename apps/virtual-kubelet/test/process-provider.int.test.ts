import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { networkInterfaces, tmpdir } from "node:os";
import path from "node:path";
import { describe, it } from "node:test";
import { parseOptions } from "@kip/base";
import { sharedControlPlane } from "@kip/control-plane/testing";
import { commandOptions } from "../src/options.ts";
import { runNode } from "../src/run.ts";

/** The API server's proxy refuses loopback addresses. */
const hostAddress = Object.values(networkInterfaces())
  .flat()
  .find((each) => each?.family === "IPv4" && !each.internal)?.address;
const example = path.join(
  import.meta.dirname,
  "../../../examples/process-provider/process-provider.ts",
);
const skip = hostAddress === undefined ? "this machine has no address but loopback" : false;

describe("examples/process-provider", () => {
  it("is found by its file's name, and runs pods as processes", { skip }, async () => {
    await using plane = await sharedControlPlane();
    const nodeName = `processes-${randomBytes(3).toString("hex")}`;
    const folder = await mkdtemp(path.join(tmpdir(), "vk-example-"));
    const pair = await plane.issueKubeletCertificate(nodeName, [hostAddress ?? ""]);
    const files = { cert: pair.certificate, key: pair.key, ca: plane.ca };
    for (const [name, text] of Object.entries(files))
      await writeFile(path.join(folder, name), text);
    const options = parseOptions(
      commandOptions,
      [
        `--kubeconfig=${plane.kipKubeconfigPath}`,
        `--nodename=${nodeName}`,
        `--provider=${example}`,
        `--node-ip=${hostAddress}`,
        "--kubelet-port=0",
        "--metrics-addr=off",
        `--tls-cert-file=${path.join(folder, "cert")}`,
        `--tls-private-key-file=${path.join(folder, "key")}`,
        `--client-ca-file=${path.join(folder, "ca")}`,
        "--log-level=error",
      ],
      {},
    );
    const stop = new AbortController();
    const ready = Promise.withResolvers<void>();
    const running = runNode(options, {}, stop.signal, () => ready.resolve());
    running.catch(ready.reject);
    await ready.promise;
    try {
      const namespace = await plane.createNamespace();
      const kubectl = (...args: readonly string[]): Promise<string> =>
        plane.kubectl(["-n", namespace, ...args]);
      const spec = {
        nodeName,
        restartPolicy: "Never",
        tolerations: [{ operator: "Exists" }],
        containers: [
          {
            name: "main",
            image: "none",
            command: ["sh", "-c", 'echo "hello $NAME"; echo careful >&2; exec sleep 600'],
            env: [{ name: "NAME", value: "world" }],
          },
        ],
      };
      const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "web" }, spec };
      await plane.kubectl(["-n", namespace, "create", "-f", "-"], { input: JSON.stringify(pod) });
      const taints = ["get", "node", nodeName, "-o", "jsonpath={.spec.taints[*].value}"];
      assert.match(await plane.kubectl(taints), /\bprocess-provider\b/);
      await kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=60s");
      assert.match(await kubectl("logs", "web"), /^hello world\n/);
      assert.match(await kubectl("logs", "web", "--timestamps", "--tail=1"), /Z careful\n$/);
      assert.equal(await kubectl("exec", "web", "--", "sh", "-c", "echo $NAME"), "world\n");
      await kubectl("delete", "pod/web", "--timeout=60s", "--grace-period=5");
    } finally {
      stop.abort();
      await running;
      await plane.kubectl(["delete", "node", nodeName]);
      await rm(folder, { recursive: true });
    }
  });
});
