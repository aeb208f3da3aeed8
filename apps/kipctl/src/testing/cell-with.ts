import type { CellSpec, CellStatus } from "@kip/kip/cell";
import type { PodCell } from "../cluster/list-cells.ts";

/** A cell of the pod `shop/web`, Claimed and created at midnight, with the given changes. */
export function cellWith(
  parts: {
    readonly name?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly spec?: Partial<CellSpec>;
    readonly status?: Partial<CellStatus>;
  } = {},
): PodCell {
  const { name = "cell-u", labels = {}, spec, status } = parts;
  return {
    apiVersion: "kip.elotl.co/v1beta1",
    kind: "Cell",
    metadata: {
      name,
      labels,
      uid: `uid-of-${name}`,
      resourceVersion: "1",
      creationTimestamp: "2026-01-01T00:00:00Z",
    },
    spec: {
      podRef: { namespace: "shop", name: "web", uid: "u" },
      nodeName: "kip",
      controllerID: "c",
      instanceType: "t3.nano",
      launchType: "on-demand",
      zone: "z1",
      image: "i",
      rootDiskBytes: 2 ** 30,
      privateIPOnly: true,
      pricePerHour: 0.0052,
      attempt: 0,
      restartCounts: {},
      ...spec,
    },
    status: { phase: "Claimed", instanceID: "i-1", ip: "10.0.0.7", ...status },
  };
}
