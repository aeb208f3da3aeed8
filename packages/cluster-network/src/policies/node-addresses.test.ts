import assert from "node:assert/strict";
import { it } from "node:test";
import { AddressGroups } from "./address-groups.ts";
import { NodeAddresses } from "./node-addresses.ts";

it("adds the addresses of cells, where host ports and NodePorts are open, to nodes that policies select", () => {
  const groups = new AddressGroups();
  const nodes = new NodeAddresses(groups);
  const name = groups.name({ nodes: {} } as never);
  groups.use(name, 1);
  nodes.setNode("kip", {
    metadata: { name: "kip", labels: {} },
    status: { addresses: [{ type: "InternalIP", address: "198.18.0.1" }] },
  });
  nodes.setNode("real", {
    metadata: { name: "real", labels: {} },
    status: { addresses: [{ type: "InternalIP", address: "192.0.2.1" }] },
  });
  const pod = (
    uid: string,
    nodeName: string,
    podIP: string,
    hostIP: string,
    hostNetwork?: boolean,
  ) =>
    nodes.setPod(uid, {
      metadata: { uid, name: uid, namespace: "default" },
      spec: { nodeName, hostNetwork, containers: [] },
      status: {
        phase: "Running",
        podIP,
        podIPs: [{ ip: podIP }],
        hostIP,
        hostIPs: [{ ip: hostIP }],
      },
    } as never);
  pod("host", "kip", "198.18.0.20", "198.18.0.20", true);
  pod("web", "kip", "198.19.0.21", "198.18.0.21");
  pod("other", "real", "10.0.0.7", "192.0.2.1");
  groups.settle();
  assert.deepEqual([...groups.addresses(name)].sort(), [
    "192.0.2.1",
    "198.18.0.1",
    "198.18.0.20",
    "198.18.0.21",
  ]);
});

it("adds nothing to groups for pods whose host has the addresses of their node, also when pods are removed", () => {
  let told = 0;
  const groups = new AddressGroups();
  const nodes = new NodeAddresses(
    Object.assign(groups, {
      setNode(...given: Parameters<AddressGroups["setNode"]>) {
        told++;
        AddressGroups.prototype.setNode.apply(groups, given);
      },
    }),
  );
  const name = groups.name({ nodes: {} } as never);
  groups.use(name, 1);
  const addresses = [{ type: "InternalIP", address: "192.0.2.1" }];
  nodes.setNode("real", { metadata: { name: "real", labels: {} }, status: { addresses } });
  const setPod = (uid: string, hostIP: string) =>
    nodes.setPod(uid, {
      metadata: { uid, name: uid, namespace: "default" },
      spec: { nodeName: "real", containers: [] },
      status: { phase: "Running", podIP: "10.0.0.7", hostIP },
    } as never);
  setPod("cell", "192.0.2.9");
  for (let i = 0; i < 10; i++) setPod(`usual-${i}`, "192.0.2.1");
  groups.settle();
  assert.deepEqual([...groups.addresses(name)].sort(), ["192.0.2.1", "192.0.2.9"]);
  nodes.forgetPods();
  assert.deepEqual([...groups.addresses(name)], ["192.0.2.1"]);
  assert.equal(told, 3);
});
