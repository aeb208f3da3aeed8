import assert from "node:assert/strict";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { isWholeRun } from "@kip/testing";
import { goClientImage, pythonClientImage } from "./client-images.ts";
import { cluster, eventually, stateDir, type Cluster } from "./cluster.ts";
import { registryHost, startImageRegistry, type ImageRegistry } from "./image-registry.ts";

const namespace = "clients";

describe(
  "programs in pods that use the API server with their token",
  { skip: !isWholeRun && "builds images: npm run test:e2e:all" },
  () => {
    let kube: Cluster;
    let registry: ImageRegistry;
    before(async () => {
      kube = await cluster(namespace);
      const folder = path.join(stateDir, "clients");
      registry = await startImageRegistry(stateDir, {
        "open/client-go": await goClientImage(folder),
        "open/client-python": await pythonClientImage(folder),
      });
      const rights = [
        "--verb=get,list,watch,create,update",
        "--resource=pods,configmaps,leases.coordination.k8s.io",
      ];
      await kube.ok("create", "configmap", "words", "--from-literal=word=none");
      await kube.ok("create", "role", "client", ...rights);
      const bound = ["--role=client", `--serviceaccount=${namespace}:default`];
      await kube.ok("create", "rolebinding", "client", ...bound);
      await kube.apply(
        client("go-one", "client-go", ["/client"]),
        client("python", "client-python", ["/usr/bin/python3", "/client/main.py"]),
      );
    });
    after(async () => {
      await kube.ok("delete", "namespace", namespace, "--timeout=120s");
      await registry[Symbol.asyncDispose]();
    });

    function client(name: string, image: string, command: readonly string[]): object {
      const field = (variable: string, fieldPath: string): object => ({
        name: variable,
        valueFrom: { fieldRef: { fieldPath } },
      });
      const env = [
        field("POD_NAME", "metadata.name"),
        field("POD_NAMESPACE", "metadata.namespace"),
      ];
      const container = { name: "main", image: `${registryHost}/open/${image}:1`, command, env };
      const spec = { terminationGracePeriodSeconds: 1, containers: [container] };
      return { apiVersion: "v1", kind: "Pod", metadata: { name }, spec };
    }

    const says = async (pod: string, line: string): Promise<void> => {
      await eventually(
        `${pod} to say ${line}`,
        async () => (await kube.kubectl("logs", pod)).stdout.split("\n").includes(line),
        300_000,
      );
    };

    it("list, watch, and elect a leader", async () => {
      for (const pod of ["go-one", "python"])
        for (const line of ["listed itself", "watches"]) await says(pod, line);
      await says("go-one", "leads");
      const patch = JSON.stringify({ data: { word: "changed" } });
      await kube.ok("patch", "configmap", "words", "-p", patch);
      for (const pod of ["go-one", "python"]) await says(pod, "saw changed");
    });

    it("take over from a leader that is gone", async () => {
      await kube.apply(client("go-two", "client-go", ["/client"]));
      await says("go-two", "watches");
      assert.ok(!(await kube.ok("logs", "go-two")).includes("leads"));
      await kube.ok("delete", "pod", "go-one", "--force", "--grace-period=0");
      await says("go-two", "leads");
    });
  },
);
