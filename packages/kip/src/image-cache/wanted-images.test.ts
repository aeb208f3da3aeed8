import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Pod } from "@kip/k8s-types";
import { formatReference } from "@kip/oci-image";
import { slimPod, usesImages, wantedImages } from "./wanted-images.ts";

const digest = (digit: string): string => `sha256:${digit.repeat(64)}`;

function podOf(namespace: string, spec: Partial<Pod["spec"]>, status: Pod["status"] = {}): Pod {
  return {
    metadata: { name: "p", namespace, uid: "u", resourceVersion: "1", labels: { a: "b" } },
    spec: { nodeName: "kip", containers: [], ...spec },
    status,
  };
}

const container = (name: string, image: string) => ({ name, image, command: ["/bin/true"] });
const ran = (imageID: string) => ({
  name: "c",
  image: "x",
  imageID,
  ready: true,
  restartCount: 0,
});

describe("wantedImages()", () => {
  it("has the images of containers of all kinds, of volumes, and of the list, once each", () => {
    const pod = podOf("a", {
      containers: [container("c", "web:1"), container("d", "docker.io/library/web:1")],
      initContainers: [container("i", "quay.io/init")],
      ephemeralContainers: [container("e", "busybox")],
      volumes: [
        { name: "v", image: { reference: "data:2" } },
        { name: "w", emptyDir: {} },
      ],
    });
    const { images, invalid } = wantedImages(
      [slimPod(pod)],
      ["quay.io/init:latest", "localhost:5000/x"],
    );
    assert.deepEqual([...images.keys()].sort(), [
      "docker.io/library/busybox:latest",
      "docker.io/library/data:2",
      "docker.io/library/web:1",
      "localhost:5000/x:latest",
      "quay.io/init:latest",
    ]);
    assert.deepEqual(invalid, []);
  });

  it("has the secrets of all pods that name an image, and no more than some", () => {
    const of = (namespace: string, ...names: readonly string[]): Pod =>
      podOf(namespace, {
        containers: [container("c", "web")],
        imagePullSecrets: names.map((name) => ({ name })),
      });
    const secrets = (...pods: readonly Pod[]) =>
      wantedImages(pods, []).images.get("docker.io/library/web:latest")?.pullSecrets;
    assert.deepEqual(secrets(of("b", "y"), of("a", "x", "y"), of("a", "x")), ["a/x", "a/y", "b/y"]);
    const many = Array.from({ length: 1000 }, (_, index) => of("a", `s${index}`));
    assert.equal(secrets(...many)?.length, 20);
  });

  it("has the namespaces that name an image, and the list", () => {
    const of = (namespace: string): Pod =>
      podOf(namespace, { containers: [container("c", "web"), container("d", "web")] });
    const { images } = wantedImages([of("b"), of("a"), of("b")], ["web", "other"]);
    assert.deepEqual(
      [...images.values()].map(({ namespaces }) => namespaces),
      [["", "a", "b"], [""]],
    );
  });

  it("has by digest what containers run, and leaves out names that are none", () => {
    const pod = podOf(
      "a",
      { containers: [container("c", "UPPER"), container("d", "web")] },
      {
        containerStatuses: [
          ran(`docker.io/library/web@${digest("a")}`),
          ran(`docker-pullable://r.example.com/app@${digest("b")}`),
          ran(digest("c")),
          ran(""),
        ],
      },
    );
    const { images, running, invalid } = wantedImages([slimPod(pod)], ["also BAD", "fine"]);
    assert.deepEqual(
      [...images.keys()],
      ["docker.io/library/web:latest", "docker.io/library/fine:latest"],
    );
    assert.deepEqual(running.map(formatReference), [
      `docker.io/library/web@${digest("a")}`,
      `r.example.com/app@${digest("b")}`,
    ]);
    assert.deepEqual(invalid, ["also BAD"]);
  });
});

describe("usesImages()", () => {
  it("is for pods that are bound, to one of the nodes if there are any, and have not ended", () => {
    const uses = (nodeName: string, phase?: string, nodes: readonly string[] = []) =>
      usesImages(podOf("a", { nodeName }, phase === undefined ? {} : { phase }), new Set(nodes));
    assert.equal(uses("kip"), true);
    assert.equal(uses("kip", "Pending", ["kip"]), true);
    assert.equal(uses("kip", "Running", ["other"]), false);
    assert.equal(uses("", "Pending"), false);
    assert.equal(uses("kip", "Succeeded"), false);
    assert.equal(uses("kip", "Failed"), false);
  });
});

describe("slimPod()", () => {
  it("keeps nothing of a pod that is not read", () => {
    const pod = podOf("a", { containers: [container("c", "web")] }, { phase: "Running" });
    const text = JSON.stringify(slimPod(pod));
    assert.doesNotMatch(text, /command|labels/);
    assert.match(text, /"nodeName":"kip".*"image":"web".*"phase":"Running"/);
  });
});
