import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { paths, type ApiClient } from "@kip/k8s-client";
import type { Container } from "@kip/k8s-types";
import type { LabelSelector } from "@kip/k8s-types/network";
import { ManualClock } from "@kip/testing";
import { ProviderError } from "../errors.ts";
import { ApiServer } from "../testing/faults/api-server.ts";
import { settled } from "../testing/settled.ts";
import { findDeployment, stopDeployment, type KipDeployment } from "./stop-deployment.ts";

const deployment = { namespace: "kip-system", name: "kip" };
const { signal } = new AbortController();
const fromMap = { configMapKeyRef: { name: "nodes", key: "node" } };

function deploymentOf(
  containers: readonly Omit<Container, "name">[],
  { replicas = 2, selector = {} }: { replicas?: number; selector?: LabelSelector } = {},
): KipDeployment {
  const metadata = { ...deployment, uid: "d", resourceVersion: "1", creationTimestamp: "" };
  const named = containers.map((each, index) => ({ name: `c${index}`, ...each }));
  return { metadata, spec: { replicas, selector, template: { spec: { containers: named } } } };
}

async function find(nodeName: string, found: KipDeployment): Promise<KipDeployment | undefined> {
  const client = { get: async () => await Promise.resolve(found) } as unknown as ApiClient; // the methods that are called
  return await findDeployment({ client, nodeName, deployment });
}

describe("findDeployment()", () => {
  const known: readonly (readonly [string, Omit<Container, "name">, string])[] = [
    ["in the arguments", { args: ["--nodename=prod"] }, "prod"],
    ["as a word of its own", { args: ["--nodename", "prod"] }, "prod"],
    ["in the command", { command: ["kip", "--nodename=prod"] }, "prod"],
    ["in the arguments after a command", { command: ["kip"], args: ["--nodename=prod"] }, "prod"],
    ["by the last of two flags", { args: ["--nodename=old", "--nodename=prod"] }, "prod"],
    ["by an empty flag, which counts as none", { args: ["--nodename="] }, "virtual-kubelet"],
    ["by a variable", { env: [{ name: "DEFAULT_NODE_NAME", value: "prod" }] }, "prod"],
    ["by the older variable", { env: [{ name: "DEFAULTNODE_NAME", value: "prod" }] }, "prod"],
    [
      "by a variable in a flag",
      {
        env: [{ name: "NODE", value: "prod" }],
        envFrom: [{ secretRef: { name: "more" } }],
        args: ["--nodename=$(NODE)-1"],
      },
      "prod-1",
    ],
    ["by the default", { args: ["--metrics-addr=:1"] }, "virtual-kubelet"],
    ["by the default, with a command", { command: ["/usr/bin/kip"] }, "virtual-kubelet"],
  ];
  for (const [how, container, nodeName] of known)
    it(`finds the node ${how}`, async () => {
      const found = deploymentOf([container]);
      assert.equal(await find(nodeName, found), found);
      await assert.rejects(find("another", found), {
        code: "NODE_RUNNING",
        message: `Cannot stop Deployment kip-system/kip for node "another": it runs node "${nodeName}"`,
        remedy:
          'Give --deployment and --namespace of the one that runs "another". If none does any longer, run kip cleanup --nodename=another',
      });
    });

  const unknown: readonly (readonly [string, readonly Omit<Container, "name">[]])[] = [
    ["valueFrom", [{ env: [{ name: "DEFAULT_NODE_NAME", valueFrom: fromMap }] }]],
    [
      "a flag with a value from elsewhere",
      [{ env: [{ name: "NODE", valueFrom: fromMap }], args: ["--nodename=$(NODE)"] }],
    ],
    ["a flag with a variable that is not there", [{ args: ["--nodename=$(NODE)"] }]],
    [
      "variables in variables",
      [{ env: [{ name: "NODE", value: "$(ZONE)-1" }], args: ["--nodename=$(NODE)"] }],
    ],
    ["envFrom", [{ envFrom: [{ secretRef: { name: "kip" } }] }]],
    ["a shell", [{ command: ["sh", "-c", "exec kip --nodename=prod"] }]],
    ["a script", [{ command: ["/start.sh"] }]],
    ["a script beside a container without a command", [{ command: ["/start.sh"] }, {}]],
    ["two nodes", [{ args: ["--nodename=virtual-kubelet"] }, { args: ["--nodename=prod"] }]],
  ];
  for (const [what, containers] of unknown)
    it(`refuses a name that is not known: ${what}`, async () => {
      for (const nodeName of ["prod", "virtual-kubelet"])
        await assert.rejects(find(nodeName, deploymentOf(containers)), (error: unknown) => {
          assert.ok(ProviderError.is(error, "NODE_RUNNING"));
          assert.match(error.message, /its node is not known, as /);
          assert.match(error.remedy ?? "", /^Give --deployment.* if it is this one: kubectl drain/);
          return true;
        });
    });

  it("takes one whose node is not known, and which does not run", async () => {
    const found = deploymentOf([{ command: ["/start.sh"] }], { replicas: 0 });
    assert.equal(await find("prod", found), found);
  });
});

describe("stopDeployment()", () => {
  const app = "app.kubernetes.io/name";
  const selectors: readonly LabelSelector[] = [
    { matchLabels: { [app]: "kip" } },
    { matchExpressions: [{ key: app, operator: "In", values: ["kip", "kip-2"] }] },
  ];
  for (const selector of selectors)
    it(`waits for its own pods alone: ${Object.keys(selector).join()}`, async () => {
      const clock = new ManualClock();
      const { client } = new ApiServer(clock);
      const pod = async (name: string, label: string) => {
        const metadata = { name, labels: { [app]: label } };
        await client.create(paths.pods("kip-system"), { metadata, spec: {}, status: {} });
      };
      await pod("own", "kip");
      await pod("other", "database");
      let isStopped = false;
      let scaled: unknown;
      const scaling = {
        ...client,
        patch: async (path: string, body: object) => {
          scaled = await Promise.resolve([path, body]);
        },
      } as unknown as ApiClient; // the in-memory server has no Deployments
      const options = { client: scaling, nodeName: "kip", deployment, clock, signal };
      const stopping = stopDeployment(deploymentOf([], { selector }), {
        ...options,
        onProgress: () => {},
      }).then(() => (isStopped = true));
      await clock.advance(60_000);
      assert.equal(isStopped, false);
      await client.delete(paths.pods("kip-system", "own"), { graceSeconds: 0 });
      assert.equal(await settled(stopping, clock), true);
      assert.deepEqual(scaled, [
        "/apis/apps/v1/namespaces/kip-system/deployments/kip/scale",
        { spec: { replicas: 0 } },
      ]);
    });
});
