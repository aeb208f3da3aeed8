// A node with the cells of a small shop, for a picture of the page.
import type { SharedControlPlane } from "@kip/control-plane/testing";
import { ignoreNotFound, paths, type ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";

const node = "kip";
const namespace = "shop";

interface Example {
  readonly pod: string;
  readonly type: string;
  readonly launchType?: "spot";
  readonly perHour: number;
  readonly status: object;
}

const started = (ip: string, cloud: number, boot: number, pull: number): object => ({
  phase: "Claimed",
  ip,
  startMs: { api: 40, cloud, boot, dial: 60, pull, unpack: pull / 5, start: 350 },
});

const noCapacity = {
  phase: "Launching",
  conditions: [
    {
      type: "Launched",
      status: "False",
      reason: "CloudNoCapacity",
      message: "No capacity for g4dn.xlarge in eu-central-1a; the next try is in 40 s",
      lastTransitionTime: new Date().toISOString(),
    },
  ],
};

const examples: readonly Example[] = [
  { pod: "web-1", type: "t3.small", perHour: 0.024, status: started("10.0.0.11", 1900, 4200, 900) },
  { pod: "web-2", type: "t3.small", perHour: 0.024, status: started("10.0.0.12", 2100, 4300, 850) },
  {
    pod: "db-0",
    type: "m6i.large",
    perHour: 0.115,
    status: started("10.0.0.13", 2300, 4100, 3100),
  },
  {
    pod: "report-xk2pl",
    type: "c6i.xlarge",
    launchType: "spot",
    perHour: 0.078,
    status: started("10.0.0.14", 2600, 4600, 1500),
  },
  { pod: "web-5", type: "t3.small", perHour: 0.024, status: { phase: "Booting" } },
  { pod: "web-6", type: "g4dn.xlarge", perHour: 0.658, status: noCapacity },
];

/** Creates the objects that kip would create. Disposing of the result removes them. */
export async function createExample(
  client: ApiClient,
  plane: SharedControlPlane,
): Promise<AsyncDisposable> {
  await plane.kubectl(["create", "namespace", namespace]);
  await plane.kubectl(["wait", "--for=create", "serviceaccount/default", "-n", namespace]);
  await using stack = new AsyncDisposableStack();
  const metadata = { name: node, labels: { "kip.elotl.co/cloud": "aws" } };
  await client.create(paths.nodes(), { kind: "Node", metadata });
  stack.defer(async () => {
    await ignoreNotFound(client.delete(paths.nodes(node)));
    await plane.kubectl(["delete", "namespace", namespace]);
  });
  for (const example of examples) {
    const cell = await createCell(client, example);
    stack.defer(async () => void (await ignoreNotFound(client.delete(paths.cells(cell)))));
  }
  return stack.move();
}

async function createCell(
  client: ApiClient,
  { pod: name, type, launchType, perHour, status }: Example,
): Promise<string> {
  const containers = [{ name: "main", image: "i" }];
  const { metadata } = await client.create<Pod>(paths.pods(namespace), {
    metadata: { name },
    spec: { nodeName: node, containers, terminationGracePeriodSeconds: 0 },
  });
  const cell = `cell-${metadata.uid}`;
  await client.create(paths.cells(), {
    apiVersion: "kip.elotl.co/v1beta1",
    kind: "Cell",
    metadata: { name: cell },
    spec: {
      podRef: { namespace, name, uid: metadata.uid },
      nodeName: node,
      controllerID: "page",
      instanceType: type,
      launchType: launchType ?? "on-demand",
      image: "i",
      rootDiskBytes: 2 ** 30,
      privateIPOnly: true,
      pricePerHour: perHour,
      attempt: 0,
      restartCounts: {},
    },
  });
  await client.patch(paths.cells(cell, "status"), { status }, "merge");
  return cell;
}
