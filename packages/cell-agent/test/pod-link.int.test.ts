// A pod's host ports and limits, from kip's document to the link, over real HTTP/2 on loopback.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { eventually } from "@kip/testing";
import { Cell } from "./cell.ts";
import { desiredPod } from "./desired-pod.ts";
import { report } from "./test-cell.ts";

describe("the link of a pod", { timeout: 60_000 }, () => {
  it("has the host ports and limits of the pod before its containers start", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    const port = { protocol: "TCP", hostPort: 8080, containerPort: 80 } as const;
    const annotations = { "kubernetes.io/egress-bandwidth": "1M" };
    const gateway = { address: "fd00::1", mac: "02:00:00:00:00:01" };
    const ipv6 = { podIp: "fd00::a:2", machineIp: "fd00::b:2", gateway };
    const directRanges = ["10.0.0.0/8", "::/0"];
    await client.putPod(desiredPod({ hostPorts: [port], directRanges, annotations, ipv6 }));
    await report(client, ({ phase }) => phase === "Running");
    assert.deepEqual(cell.links, [
      {
        podAddresses: ["10.0.0.2", "fd00::a:2"],
        hostPorts: [port],
        directRanges,
        bandwidth: { ingressBits: undefined, egressBits: 1e6 },
        hasRules: false,
        hasRun: false,
      },
    ]);
  });

  it("keeps a pod waiting whose limit is invalid, until it is corrected", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    const name = "kubernetes.io/ingress-bandwidth";
    await client.putPod(desiredPod({ annotations: { [name]: "1" } }));
    const { events, phase } = await report(client, (each) =>
      each.events.some(({ reason }) => reason === "FailedCreatePodSandBox"),
    );
    const problem = events.find(({ reason }) => reason === "FailedCreatePodSandBox");
    assert.match(problem?.message ?? "", /resource is unreasonably small \(< 1kbit\)/);
    assert.equal(phase, "Pending");
    assert.deepEqual(cell.runtime.calls, []);
    await client.putPod(desiredPod({ generation: 2, annotations: { [name]: "1k" } }));
    await report(client, (each) => each.phase === "Running");
    assert.equal(cell.links.at(-1)?.bandwidth.ingressBits, 1000);
  });

  it("is set up again by the agent's next life, which leaves limits that are invalid by now", async () => {
    await using cell = await Cell.start();
    const first = await cell.connect();
    const port = { protocol: "UDP", hostPort: 53, containerPort: 5353 } as const;
    await first.putPod(desiredPod({ hostPorts: [port] }));
    await report(first, ({ phase }) => phase === "Running");
    const annotations = { "kubernetes.io/ingress-bandwidth": "nonsense" };
    await first.putPod(desiredPod({ generation: 2, hostPorts: [port], annotations }));
    await cell.agent[Symbol.asyncDispose]();
    await cell.startAgent();
    const second = await cell.connect();
    await report(second, ({ phase }) => phase === "Running");
    await eventually(() => cell.links.length === 2);
    assert.deepEqual(cell.links[1], { ...cell.links[0], bandwidth: {}, hasRun: true });
  });

  it("sets no link up for a pod with the cell's own network", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod({ hostNetwork: true, directRanges: ["10.0.0.0/8"] }));
    await report(client, ({ phase }) => phase === "Running");
    assert.deepEqual(cell.links, []);
  });
});
