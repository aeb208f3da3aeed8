import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { K8sError } from "@kip/k8s-client";
import type { EnvVar, Pod, Service, Volume } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { VirtualKubeletError } from "../errors.ts";
import type { ResolvedPod } from "../pod-provider.ts";
import { fakeReferences, type FakeObjects } from "../testing/fake-references.ts";
import { resolvePod, type ResolveSources } from "./resolve-pod.ts";

const pod = podWith({
  metadata: {
    name: "web",
    namespace: "team",
    uid: "u1",
    labels: { app: "shop", tier: "a" },
    annotations: { note: 'say "hi"' },
  },
  spec: { nodeName: "node-1", serviceAccountName: "robot", containers: [] },
});

const configMapKey = (name: string, key: string, optional?: boolean): EnvVar => ({
  name: key.toUpperCase(),
  valueFrom: {
    configMapKeyRef: { name, key, ...(optional !== undefined && { optional }) },
  },
});
const field = (name: string, fieldPath: string): EnvVar => ({
  name,
  valueFrom: { fieldRef: { fieldPath } },
});

/** Sources without any object. */
const nothing: ResolveSources = {
  references: fakeReferences({}),
  services: [],
  allocatable: {},
  notify: () => {},
  tokens: { token: () => Promise.reject(new Error("There are no tokens")) },
};

describe("resolvePod()", () => {
  it("resolves init, regular and ephemeral containers by the same rules (V1, V11)", async () => {
    const env = [configMapKey("c", "k"), field("NAME", "metadata.name")];
    const envFrom = [{ secretRef: { name: "s" } }];
    const resolved = await resolvePod(
      {
        ...pod,
        spec: {
          initContainers: [{ name: "init", env }],
          containers: [{ name: "main", env }],
          ephemeralContainers: [{ name: "debug", env, envFrom }],
          imagePullSecrets: [{ name: "pull" }, { name: "none" }],
        },
      },
      {
        ...nothing,
        references: fakeReferences({
          "ConfigMap/c": { k: "v" },
          "Secret/s": { t: "u" },
          "Secret/pull": { ".dockercfg": '{"r.test":{"auth":"x"}}' },
        }),
      },
    );
    const own = [
      { name: "K", value: "v" },
      { name: "NAME", value: "web" },
    ];
    assert.deepEqual(resolved.env.get("init"), own);
    assert.deepEqual(resolved.env.get("main"), own);
    assert.deepEqual(resolved.env.get("debug"), [{ name: "t", value: "u" }, ...own]);
    assert.deepEqual(resolved.pullSecrets, [{ auths: { "r.test": { auth: "x" } } }]);
  });

  it("hostile pod: counts variables of services for each container, although their texts are shared", async () => {
    const ports = Array.from({ length: 500 }, (_, index) => ({ port: index + 1 }));
    const services = Array.from({ length: 10 }, (_, index): Service => ({
      metadata: { name: `s${index}`, namespace: "team", uid: `s${index}`, resourceVersion: "1" },
      spec: { clusterIP: "192.0.2.1", ports },
    }));
    const withContainers = (count: number): Pod => {
      const containers = Array.from({ length: count }, (_, index) => ({ name: `c${index}` }));
      return { ...pod, spec: { containers } };
    };
    // 20,030 variables in each.
    await resolvePod(withContainers(12), { ...nothing, services });
    await assert.rejects(resolvePod(withContainers(14), { ...nothing, services }), (error) =>
      VirtualKubeletError.is(error, "VK_UNRESOLVED"),
    );
  });

  it("gives a running pod its new token although its ConfigMap and a Secret's key are gone", async () => {
    let tokens = 0;
    const running: Pod = {
      ...pod,
      spec: {
        containers: [{ name: "main", env: [configMapKey("c", "k")] }],
        volumes: [
          { name: "config", secret: { secretName: "s", items: [{ key: "t", path: "t" }] } },
          { name: "token", projected: { sources: [{ serviceAccountToken: { path: "token" } }] } },
        ],
      },
    };
    const look = (objects: FakeObjects, previous?: ResolvedPod): Promise<ResolvedPod> =>
      resolvePod(running, {
        ...nothing,
        references: fakeReferences(objects),
        tokens: {
          token: async () => ({ data: Buffer.from(`token ${++tokens}`), refreshAt: tokens }),
        },
        previous,
      });
    const first = await look({ "ConfigMap/c": { k: "v" }, "Secret/s": { t: "u" } });
    const second = await look({ "Secret/s": {} }, first);
    assert.deepEqual(second.env, first.env);
    assert.deepEqual(second.files.get("config"), first.files.get("config"));
    assert.equal(String(second.files.get("token")?.[0]?.data), "token 2");
    assert.equal(second.refreshAt, 2);
    const isUnresolved = (error: unknown): boolean =>
      VirtualKubeletError.is(error, "VK_UNRESOLVED");
    await assert.rejects(look({ "Secret/s": {} }), isUnresolved);
    // It must not count as gone, because a change of it would be lost.
    const away = new K8sError("K8S_UNAVAILABLE", "overloaded", { retryable: true });
    await assert.rejects(look({ "ConfigMap/c": away, "Secret/s": {} }, first), isUnresolved);
  });

  it("holds back containers whose variables are missing, if another one can start meanwhile", async () => {
    const env = [configMapKey("c", "k")];
    const main = { name: "main", env };
    const look = (spec: NonNullable<Pod["spec"]>, more: Partial<ResolveSources> = {}) =>
      resolvePod({ ...pod, spec }, { ...nothing, holdsBackContainers: true, ...more });
    const held = { initContainers: [{ name: "maker" }], containers: [main] };
    const resolved = await look(held);
    assert.deepEqual([...(resolved.missingEnv ?? [])], [["main", 'configmap "c" not found']]);
    assert.deepEqual([...resolved.env.keys()], ["maker"]);
    const beside = await look({ containers: [main, { name: "other" }] });
    assert.deepEqual([...(beside.missingEnv?.keys() ?? [])], ["main"]);
    const keyless = { references: fakeReferences({ "ConfigMap/c": {} }) };
    assert.match((await look(held, keyless)).missingEnv?.get("main") ?? "", /^couldn't find key k/);
    const there = { references: fakeReferences({ "ConfigMap/c": { k: "v" } }), previous: resolved };
    const whole = await look(held, there);
    assert.equal(whole.missingEnv, undefined);
    assert.deepEqual(whole.env.get("main"), [{ name: "K", value: "v" }]);

    const away = new K8sError("K8S_UNAVAILABLE", "overloaded", { retryable: true });
    const waiting = [
      look({ containers: [main] }),
      look({ initContainers: [{ name: "first", env }], containers: [{ name: "other" }] }),
      look(held, { holdsBackContainers: false }),
      // It may be there.
      look(held, { references: fakeReferences({ "ConfigMap/c": away }) }),
    ];
    for (const each of waiting)
      await assert.rejects(each, (error) => VirtualKubeletError.is(error, "VK_UNRESOLVED"));
  });

  it("gives a running pod its token, although what its containers started with is gone since", async () => {
    const env = [configMapKey("c", "k")];
    const token = {
      name: "token",
      projected: { sources: [{ serviceAccountToken: { path: "t" } }] },
    };
    const look = (spec: NonNullable<Pod["spec"]>, others: readonly Volume[] = []) =>
      resolvePod(
        { ...pod, spec: { ...spec, volumes: [...others, token] }, status: { phase: "Running" } },
        {
          ...nothing,
          holdsBackContainers: true,
          tokens: { token: async () => ({ data: Buffer.from("token"), refreshAt: 1 }) },
        },
      );
    const main = { name: "main", env };
    const alone = await look({ containers: [main] });
    const afterInit = await look({
      initContainers: [{ name: "init", env }],
      containers: [{ name: "main" }],
    });
    for (const { files, missingEnv } of [alone, afterInit]) {
      assert.equal(String(files.get("token")?.[0]?.data), "token");
      assert.equal(missingEnv?.size, 1);
    }
    const gone = { name: "config", configMap: { name: "c" } };
    const { files, missingFiles } = await look({ containers: [{ name: "main" }] }, [gone]);
    assert.deepEqual([[...files.keys()], [...(missingFiles ?? [])]], [["token"], ["config"]]);
  });

  it("does the same for a pod that is pending, but of which a container has run", async () => {
    const env = [configMapKey("c", "k")];
    const configMap = { name: "c" };
    const { files, missingEnv, missingFiles } = await resolvePod(
      {
        ...pod,
        spec: {
          initContainers: [{ name: "once", env }],
          containers: [{ name: "main" }],
          volumes: [
            { name: "gone", configMap },
            { name: "here", configMap: { name: "d" } },
          ],
        },
        status: {
          phase: "Pending",
          initContainerStatuses: [
            {
              name: "once",
              image: "",
              imageID: "",
              ready: true,
              restartCount: 0,
              state: { terminated: { exitCode: 0 } },
            },
          ],
        },
      },
      {
        ...nothing,
        holdsBackContainers: true,
        references: fakeReferences({ "ConfigMap/d": { k: "v" } }),
      },
    );
    assert.deepEqual([...(missingEnv?.keys() ?? [])], ["once"]);
    assert.deepEqual([[...files.keys()], [...(missingFiles ?? [])]], [["here"], ["gone"]]);
  });

  it("refuses a small pod whose environment or files would hold tens of megabytes", async () => {
    const growing = [
      { name: "A", value: "x".repeat(1000) },
      { name: "B", value: "$(A)".repeat(80) },
      { name: "C", value: "$(B)".repeat(50) },
    ];
    const containers = ["a", "b", "c", "d"].map((name) => ({ name, env: growing }));
    const annotations = { fieldRef: { fieldPath: "metadata.annotations" } };
    const names = Array.from({ length: 50 }, (_, index) => `V${index}`);
    const env = names.map((name) => ({ name, valueFrom: annotations }));
    const items = names.map((path) => ({ path, ...annotations }));
    const annotated: Pod = {
      ...pod,
      metadata: { ...pod.metadata, annotations: { long: "x".repeat(250_000) } },
    };
    for (const spec of [
      { containers },
      {
        containers: [
          { name: "main", env: env.slice(0, 25) },
          { name: "b", env: env.slice(25) },
        ],
      },
      { containers: [], volumes: [{ name: "v", downwardAPI: { items } }] },
    ])
      await assert.rejects(
        resolvePod(
          { ...annotated, spec },
          {
            ...nothing,
          },
        ),
        (error) => VirtualKubeletError.is(error, "VK_UNRESOLVED"),
      );
  });

  it("refuses a pod whose content exceeds its memory limit, however it is spread", async () => {
    const doubling = Array.from({ length: 22 }, (_, index) => ({
      name: `V${index}`,
      value: index === 0 ? "x" : `$(V${index - 1})$(V${index - 1})`,
    }));
    const keys = Object.fromEntries(
      Array.from({ length: 10_000 }, (_, index) => [`k${index}`, ""]),
    );
    const annotated: Pod = {
      ...pod,
      metadata: { ...pod.metadata, annotations: { long: "x".repeat(250_000) } },
    };
    const annotations = { fieldRef: { fieldPath: "metadata.annotations" } };
    const many = <T>(count: number, make: (index: number) => T): T[] =>
      Array.from({ length: count }, (_, index) => make(index));
    const specs: Readonly<Record<string, NonNullable<Pod["spec"]>>> = {
      "variables that name each other, in each container": {
        containers: many(100, (index) => ({ name: `c${index}`, env: doubling.slice(0, 21) })),
      },
      "one ConfigMap as the source of a container's variables, again and again": {
        containers: [
          { name: "main", envFrom: many(1000, () => ({ configMapRef: { name: "c" } })) },
        ],
      },
      "one ConfigMap under some prefixes, whose names are the pod's alone": {
        containers: [
          {
            name: "main",
            envFrom: many(13, (index) => ({ prefix: `P${index}`, configMapRef: { name: "c" } })),
          },
        ],
      },
      "one ConfigMap in some volumes": {
        containers: [],
        volumes: many(14, (index) => ({ name: `v${index}`, configMap: { name: "c" } })),
      },
      "one ConfigMap in each volume": {
        containers: [],
        volumes: many(1000, (index) => ({ name: `v${index}`, configMap: { name: "c" } })),
      },
      "all annotations in each file of a volume": {
        containers: [],
        volumes: [
          {
            name: "v",
            downwardAPI: { items: many(1000, (index) => ({ path: `p${index}`, ...annotations })) },
          },
        ],
      },
    };
    const objects = fakeReferences({ "ConfigMap/c": keys });
    const content = await objects.read({ kind: "ConfigMap", name: "c" });
    for (const [what, spec] of Object.entries(specs)) {
      const before = process.memoryUsage().arrayBuffers;
      await assert.rejects(
        resolvePod(
          { ...annotated, spec },
          {
            ...nothing,
            references: { read: async () => content },
          },
        ),
        (error) =>
          VirtualKubeletError.is(error, "VK_UNRESOLVED") &&
          (spec.containers.length === 0 || error.container !== undefined),
        what,
      );
      assert.ok(process.memoryUsage().arrayBuffers - before < 100e6, what);
    }
  });
});
