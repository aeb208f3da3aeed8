import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Pod } from "@kip/k8s-types";
import { desiredHostPorts } from "./host-ports.ts";

const addresses = {
  cell: ["198.18.0.16", "fd00::10"],
  node: ["198.18.0.1", "fd00::1"],
};

function pod(spec: object): Pod {
  return { metadata: {}, spec: { containers: [], ...spec } } as unknown as Pod; // the fields that are read
}

describe("desiredHostPorts()", () => {
  it("are those of containers and sidecars, and of no other init container", () => {
    const one = (number: number) => ({ ports: [{ containerPort: 80, hostPort: number }] });
    const spec = {
      initContainers: [one(1), { ...one(2), restartPolicy: "Always" }],
      containers: [one(3), { ports: [{ containerPort: 80 }] }, {}],
    };
    assert.deepEqual(desiredHostPorts(pod(spec), addresses), [
      { protocol: "TCP", hostPort: 2, containerPort: 80 },
      { protocol: "TCP", hostPort: 3, containerPort: 80 },
    ]);
  });

  it("answer at the cell's address in place of the virtual node's", () => {
    const at = (hostIP: string) => ({ protocol: "UDP", containerPort: 1, hostPort: 1, hostIP });
    const ports = ["198.18.0.1", "FD00::1", "0.0.0.0", "127.0.0.1"].map(at);
    const desired = desiredHostPorts(pod({ containers: [{ ports }] }), addresses);
    assert.deepEqual(
      desired?.map(({ hostIp }) => hostIp),
      ["198.18.0.16", "fd00::10", undefined, "127.0.0.1"],
    );
  });

  it("are none where hostIP is not a valid address, which the API server takes", () => {
    const at = (hostIP: string) => ({ containerPort: 1, hostPort: 1, hostIP });
    const ports = ["127.0.0.01", "localhost", "127.0.0.1/8"].map(at);
    assert.equal(desiredHostPorts(pod({ containers: [{ ports }] }), addresses), undefined);
    const [all] =
      desiredHostPorts(pod({ containers: [{ ports: [...ports, at("")] }] }), addresses) ?? [];
    assert.deepEqual(all, { protocol: "TCP", containerPort: 1, hostPort: 1 });
  });

  it("are none with the cell's own network", () => {
    const containers = [{ ports: [{ containerPort: 80, hostPort: 80 }] }];
    assert.equal(desiredHostPorts(pod({ hostNetwork: true, containers }), addresses), undefined);
  });
});
