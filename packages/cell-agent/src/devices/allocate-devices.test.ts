import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { DesiredContainer } from "@kip/agent-api";
import { container } from "../../test/desired-pod.ts";
import { allocateDevices, givenDevices, mayComeLater } from "./allocate-devices.ts";

const card = "example.com/card";
const devices = (...names: readonly string[]) =>
  new Map([[card, names.map((name) => ({ name, id: name, edits: [] }))]]);
const asks = (name: string, count: number, more: Partial<DesiredContainer> = {}) =>
  container(name, { extendedResources: [{ resource: card, count }], ...more });

function given(found: ReturnType<typeof allocateDevices>) {
  if (found.rejection) return found.rejection.message;
  return Object.fromEntries(
    Object.entries(found.devices).map(([name, ids]) => [
      name,
      ids.map((id) => id.replace(`${card}=`, "")).join(),
    ]),
  );
}

describe("allocateDevices()", () => {
  it("gives each container devices of its own", () => {
    const pod = { initContainers: [], containers: [asks("a", 1), container("b"), asks("c", 2)] };
    assert.deepEqual(given(allocateDevices(pod, devices("0", "1", "2", "3"))), {
      a: "0",
      b: "",
      c: "1,2",
    });
  });

  it("gives those of init containers again, and not those of sidecars", () => {
    const sidecar = asks("side", 1, { restartPolicy: "Always" });
    const initContainers = [asks("first", 2), sidecar, asks("second", 1)];
    const pod = { initContainers, containers: [asks("main", 1)] };
    assert.deepEqual(given(allocateDevices(pod, devices("0", "1"))), {
      first: "0,1",
      side: "0",
      second: "1",
      main: "1",
    });
  });

  it("refuses a pod that asks for more than there is, in the kubelet's words", () => {
    const pod = { initContainers: [], containers: [asks("a", 1), asks("b", 2)] };
    const { rejection } = allocateDevices(pod, devices("0", "1"));
    assert.deepEqual(rejection, {
      reason: "UnexpectedAdmissionError",
      message:
        "Allocate failed due to requested number of devices unavailable for example.com/card. Requested: 2, Available: 1, which is unexpected",
    });
  });

  it("refuses a pod that asks for a GPU where there is none", () => {
    const of = (resource: string) => {
      const containers = [container("a", { extendedResources: [{ resource, count: 1 }] })];
      return allocateDevices({ initContainers: [], containers }, new Map()).rejection?.reason;
    };
    for (const gpu of [
      "nvidia.com/gpu",
      "amd.com/gpu",
      "gpu.intel.com/i915",
      "nvidia.com/gpu.shared",
    ])
      assert.equal(of(gpu), "UnexpectedAdmissionError");
    for (const other of ["example.com/gpus", "example.com/card"])
      assert.equal(of(other), undefined);
  });

  it("counts what the machine's type has, and ignores what it does not know", () => {
    const count = (wanted: number, capacity?: number) =>
      allocateDevices(
        {
          initContainers: [],
          containers: [asks("a", wanted)],
          extendedResources: capacity === undefined ? [] : [{ resource: card, count: capacity }],
        },
        new Map(),
      ).rejection;
    assert.equal(count(2, 2), undefined);
    assert.equal(count(9), undefined);
    assert.deepEqual(count(3, 2), {
      reason: "OutOfexample.com/card",
      message:
        "Node didn't have enough resource: example.com/card, requested: 3, used: 0, capacity: 2",
    });
  });
});

describe("mayComeLater()", () => {
  it("is so where a container that asks for none starts first", () => {
    const containers = [asks("main", 1)];
    assert.equal(mayComeLater({ initContainers: [], containers }), false);
    assert.equal(mayComeLater({ initContainers: [asks("init", 1)], containers }), false);
    assert.equal(mayComeLater({ initContainers: [container("init")], containers }), true);
  });
});

describe("givenDevices()", () => {
  it("finds what a container was given, also when there are others by now, and fails without it", () => {
    const now = devices("1", "2", "3");
    const ids = givenDevices([`${card}=3`, `${card}=1`], now).map(({ id }) => id);
    assert.deepEqual(ids, ["3", "1"]);
    assert.deepEqual(givenDevices(undefined, now), []);
    assert.throws(() => givenDevices([`${card}=0`], now), {
      code: "AGENT_DEVICE_GONE",
      message: "device example.com/card=0 is gone",
    });
  });
});
