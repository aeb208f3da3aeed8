import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { growth } from "@kip/base/testing";
import type { Container } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { containerHugePages, desiredHugePages } from "./huge-pages.ts";

const Mi = 2 ** 20;

function container(name: string, pages: Readonly<Record<string, string>>): Container {
  return { name, resources: { limits: pages, requests: pages } };
}

describe("desiredHugePages() and containerHugePages()", () => {
  it("names each size of the pod, also for containers that may use none", () => {
    const user = container("user", { memory: "64Mi", "hugepages-2Mi": "8Mi" });
    const other = container("other", { memory: "64Mi", "hugepages-1Gi": "1Gi" });
    const pod = podWith({ spec: { containers: [user, other] } });
    assert.deepEqual(desiredHugePages(pod), [
      { pageBytes: 2 * Mi, bytes: 8 * Mi },
      { pageBytes: 1024 * Mi, bytes: 1024 * Mi },
    ]);
    assert.deepEqual(containerHugePages(pod, user), [
      { pageBytes: 2 * Mi, bytes: 8 * Mi },
      { pageBytes: 1024 * Mi, bytes: 0 },
    ]);
  });

  it("gives containers without limits of their own what the pod as a whole has", () => {
    const pages = { "hugepages-2Mi": "8Mi" };
    const own = container("own", { "hugepages-2Mi": "2Mi" });
    const plain = container("plain", { memory: "64Mi" });
    const resources = { limits: pages, requests: pages };
    const pod = podWith({ spec: { containers: [own, plain], resources } });
    const bytes = (one: Container) => containerHugePages(pod, one)?.map((pages) => pages.bytes);
    assert.deepEqual([bytes(own), bytes(plain)], [[2 * Mi], [8 * Mi]]);
  });

  it("says nothing of a pod without huge pages", () => {
    const plain = container("plain", { memory: "64Mi" });
    const pod = podWith({ spec: { containers: [plain] } });
    assert.deepEqual(
      [desiredHugePages(pod), containerHugePages(pod, plain)],
      [undefined, undefined],
    );
  });

  it("gives no container sizes of which the pod has nothing: a pod may name thousands", () => {
    const none = Object.fromEntries(
      Array.from({ length: 1000 }, (_, at) => [`hugepages-${at + 1}`, "0"]),
    );
    const pod = podWith({ spec: { containers: [container("a", none), container("b", {})] } });
    assert.equal(desiredHugePages(pod), undefined);
    for (const one of pod.spec.containers) assert.equal(containerHugePages(pod, one), undefined);
  });

  it("costs time linear in the number of containers of a pod", async () => {
    const ofAll = (count: number): unknown => {
      const containers = Array.from({ length: count }, (_, index) =>
        container(`c${index}`, { cpu: "10m", memory: "64Mi" }),
      );
      const pod = podWith({ spec: { containers } });
      return containers.map((one) => containerHugePages(pod, one));
    };
    assert.ok((await growth(ofAll, 2000)) < 40);
  });
});
