import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { K8sError } from "@kip/k8s-client";
import type { Container, EnvVar, Pod } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { assertScales } from "@kip/testing";
import { VirtualKubeletError } from "../errors.ts";
import { fakeReferences, type FakeObjects } from "../testing/fake-references.ts";
import { resolvedWith } from "../testing/resolved-pod.ts";
import { containerEnv, type EnvSources } from "./container-env.ts";
import { bindLateEnv } from "./late-env.ts";

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

interface Options {
  readonly objects?: FakeObjects;
  readonly services?: ReadonlyMap<string, string>;
  readonly pod?: Pod;
  readonly readsFiles?: boolean;
}

async function resolve(container: Partial<Container>, options: Options = {}) {
  const events: string[] = [];
  const messages: string[] = [];
  const sources: EnvSources = {
    pod: options.pod ?? pod,
    references: fakeReferences(options.objects ?? {}),
    services: options.services ?? new Map(),
    readsFiles: options.readsFiles,
    allocatable: { cpu: "4", memory: "8Gi", "hugepages-2Mi": "1Gi" },
    notify: ({ reason, message }) => {
      events.push(reason);
      messages.push(message);
    },
  };
  const outcome = await containerEnv({ name: "main", ...container }, sources).then(
    (env) => ({
      env: Object.fromEntries(env.env.map(({ name, value }) => [name, value])),
      all: env,
    }),
    (error: unknown) => ({ error }),
  );
  return { env: undefined, all: undefined, error: undefined, ...outcome, events, messages };
}

const configMapKey = (name: string, key: string, optional?: boolean): EnvVar => ({
  name: key.toUpperCase(),
  valueFrom: {
    configMapKeyRef: { name, key, ...(optional !== undefined && { optional }) },
  },
});
const secretKey = (name: string, key: string, optional?: boolean): EnvVar => ({
  name: key.toUpperCase(),
  valueFrom: { secretKeyRef: { name, key, ...(optional !== undefined && { optional }) } },
});
const field = (name: string, fieldPath: string): EnvVar => ({
  name,
  valueFrom: { fieldRef: { fieldPath } },
});
const amount = (name: string, resource: string, divisor?: string): EnvVar => ({
  name,
  valueFrom: { resourceFieldRef: { resource, ...(divisor !== undefined && { divisor }) } },
});

describe("containerEnv()", () => {
  it("reads values from ConfigMaps and Secrets by key (V1)", async () => {
    const { env } = await resolve(
      { env: [{ name: "A", value: "1" }, configMapKey("c", "b"), secretKey("s", "d")] },
      { objects: { "ConfigMap/c": { b: "2" }, "Secret/s": { d: "3" } } },
    );
    assert.deepEqual(env, { A: "1", B: "2", D: "3" });
  });

  it("reads values from fields of the pod (V2)", async () => {
    const { env } = await resolve({
      env: [
        field("NODE", "spec.nodeName"),
        field("HOST", "spec.host"),
        field("ACCOUNT", "spec.serviceAccountName"),
        field("LABELS", "metadata.labels"),
        field("LABEL", "metadata.labels['app']"),
        field("NOTES", "metadata.annotations"),
        field("NONE", "metadata.annotations['none']"),
        field("UID", "metadata.uid"),
      ],
    });
    assert.deepEqual(env, {
      NODE: "node-1",
      HOST: "node-1",
      ACCOUNT: "robot",
      LABELS: 'app="shop"\ntier="a"',
      LABEL: "shop",
      NOTES: 'note="say \\"hi\\""',
      NONE: "",
      UID: "u1",
    });
  });

  it("imports whole objects with a prefix, where later ones override earlier ones (V3, V4)", async () => {
    const { env, events } = await resolve(
      {
        envFrom: [
          { configMapRef: { name: "one" } },
          { prefix: "P_", configMapRef: { name: "two" } },
          { prefix: "P_", secretRef: { name: "three" } },
        ],
      },
      {
        objects: {
          "ConfigMap/one": { a: "1", b: "1" },
          "ConfigMap/two": { a: "2", c: "2" },
          "Secret/three": { c: "3" },
        },
      },
    );
    assert.deepEqual(env, { a: "1", b: "1", P_a: "2", P_c: "3" });
    assert.deepEqual(events, []);
  });

  it("skips names that cannot be variables, and says which (V5)", async () => {
    const { env, events, messages } = await resolve(
      {
        envFrom: [
          { prefix: "a=", configMapRef: { name: "c" } },
          { prefix: "ü", secretRef: { name: "s" } },
        ],
      },
      { objects: { "ConfigMap/c": { x: "1", y: "1" }, "Secret/s": { z: "1" } } },
    );
    assert.deepEqual(env, {});
    assert.deepEqual(events, [
      "InvalidEnvironmentVariableNames",
      "InvalidEnvironmentVariableNames",
    ]);
    assert.match(messages[0] ?? "", /\[a=x, a=y\] of configmap "c" in namespace "team"/);
  });

  it("prefers env to envFrom (V6)", async () => {
    const { env } = await resolve(
      { envFrom: [{ configMapRef: { name: "c" } }], env: [{ name: "a", value: "own" }] },
      { objects: { "ConfigMap/c": { a: "1" } } },
    );
    assert.deepEqual(env, { a: "own" });
  });

  it("skips missing optional objects and fails on missing mandatory ones, with an event each (V7)", async () => {
    const { error, events } = await resolve({
      envFrom: [
        { configMapRef: { name: "c1", optional: true } },
        { secretRef: { name: "s1", optional: true } },
        { secretRef: { name: "s2", optional: false } },
      ],
    });
    assert.ok(VirtualKubeletError.is(error, "VK_UNRESOLVED"));
    assert.deepEqual(events, [
      "OptionalConfigMapNotFound",
      "OptionalSecretNotFound",
      "MandatorySecretNotFound",
    ]);
    const second = await resolve({ envFrom: [{ configMapRef: { name: "c2" } }] });
    assert.deepEqual(second.events, ["MandatoryConfigMapNotFound"]);
  });

  it("treats a key without `optional` as mandatory (V8)", async () => {
    const objects = { "ConfigMap/c": {}, "Secret/s": {} };
    const first = await resolve({ env: [configMapKey("c", "k")] }, { objects });
    assert.ok(VirtualKubeletError.is(first.error, "VK_UNRESOLVED"));
    assert.deepEqual(first.events, ["MandatoryConfigMapKeyNotFound"]);
    assert.deepEqual(first.messages, ["couldn't find key k in ConfigMap team/c"]);
    const second = await resolve({ env: [secretKey("s", "k", false)] }, { objects });
    assert.deepEqual(second.events, ["MandatorySecretKeyNotFound"]);
    const third = await resolve(
      { env: [secretKey("s", "k", true), configMapKey("none", "k", true)] },
      { objects },
    );
    assert.deepEqual(third.env, {}, "a missing optional value sets no variable, not an empty one");
    assert.deepEqual(third.events, ["OptionalSecretKeyNotFound", "OptionalConfigMapNotFound"]);
  });

  it("distinguishes an object that cannot be read from one that is missing", async () => {
    const objects = { "Secret/s": new K8sError("K8S_FORBIDDEN", "not yours") };
    const mandatory = await resolve({ env: [secretKey("s", "k")] }, { objects });
    assert.deepEqual(mandatory.events, ["FailedToReadMandatorySecret"]);
    const optional = await resolve({ env: [secretKey("s", "k", true)] }, { objects });
    assert.deepEqual(optional.events, ["FailedToReadOptionalSecret"]);
    assert.deepEqual(optional.env, {});
  });

  it("waits for an optional object while the API server cannot say whether it is there", async () => {
    const away = new K8sError("K8S_UNAVAILABLE", "overloaded", { retryable: true });
    const { error, events } = await resolve(
      { env: [secretKey("s", "k", true)] },
      { objects: { "Secret/s": away } },
    );
    assert.ok(VirtualKubeletError.is(error, "VK_UNRESOLVED"));
    assert.deepEqual(events, ["FailedToReadOptionalSecret"]);
  });

  it("refuses an environment that expands beyond what any program can be started with", async () => {
    const growing = (first: EnvVar): EnvVar[] => [
      first,
      ...["A", "B", "C", "D", "E", "F"].map((name, index, names) => ({
        name,
        value: `$(${index === 0 ? first.name : names[index - 1]})`.repeat(100),
      })),
    ];
    const early = await resolve({ env: growing({ name: "SEED", value: "x".repeat(100) }) });
    assert.ok(VirtualKubeletError.is(early.error, "VK_UNRESOLVED"));
    const late = await resolve({ env: growing(field("SEED", "status.podIP")) });
    assert.ok(late.all);
    const { env, late: lateEnv, lateTemplates } = late.all;
    const resolved = {
      pod,
      env: new Map([["main", env]]),
      lateEnv: new Map([["main", lateEnv]]),
      lateTemplates: new Map([["main", lateTemplates]]),
      files: new Map(),
      pullSecrets: [],
    };
    assert.throws(
      () => bindLateEnv(resolved, "main", { podIPs: ["192.0.2.1"], hostIPs: [] }),
      (error) => VirtualKubeletError.is(error, "VK_UNRESOLVED"),
    );
  });

  it("composes values and keeps empty ones (V10)", async () => {
    const { env } = await resolve({
      env: [
        { name: "A", value: "a" },
        { name: "B", value: "" },
        { name: "C", value: "$(A)$(B)$(A)-$(D)-$$(A)" },
        { name: "D", value: "late" },
        { name: "NONE" },
      ],
    });
    assert.equal(env?.["C"], "aa-$(D)-$(A)");
    assert.equal(env?.["B"], "");
    assert.equal(env?.["NONE"], "");
  });

  it("adds service variables where the name is free, and lets values refer to them", async () => {
    const { env } = await resolve(
      {
        env: [
          { name: "URL", value: "http://$(DB_SERVICE_HOST)" },
          { name: "X", value: "own" },
        ],
      },
      {
        services: new Map([
          ["DB_SERVICE_HOST", "10.0.0.9"],
          ["X", "service"],
        ]),
      },
    );
    assert.deepEqual(env, { URL: "http://10.0.0.9", X: "own", DB_SERVICE_HOST: "10.0.0.9" });
  });

  it("shows the limits of the pod as a whole where a container has none, as a kubelet does", async () => {
    const limits = { cpu: "1500m", memory: "0" };
    const spec = { ...pod.spec, resources: { limits } };
    const env = [amount("CPU_M", "limits.cpu", "1m"), amount("GI", "limits.memory", "1Gi")];
    const open = await resolve({ env }, { pod: { ...pod, spec } });
    assert.deepEqual(open.env, { CPU_M: "1500", GI: "8" });
    const own = { resources: { limits: { cpu: "1" } } };
    const closed = await resolve({ env, ...own }, { pod: { ...pod, spec } });
    assert.deepEqual(closed.env, { CPU_M: "1000", GI: "8" });
  });

  it("computes resources in units of the divisor, rounded up", async () => {
    const { env } = await resolve({
      resources: { limits: { cpu: "1500m", memory: "100Mi" }, requests: { cpu: "250m" } },
      env: [
        amount("CPU", "limits.cpu"),
        amount("CPU_M", "limits.cpu", "1m"),
        amount("REQUEST", "requests.cpu", "1m"),
        amount("MEMORY", "limits.memory"),
        amount("MEMORY_MI", "limits.memory", "1Mi"),
        amount("MEMORY_REQUEST", "requests.memory", "1Gi"),
        amount("DISK", "limits.ephemeral-storage"),
      ],
    });
    assert.deepEqual(env, {
      CPU: "2",
      CPU_M: "1500",
      REQUEST: "250",
      MEMORY: "104857600",
      MEMORY_MI: "100",
      MEMORY_REQUEST: "1",
      DISK: "0",
    });
    const node = await resolve({
      env: [amount("CPU", "limits.cpu"), amount("M", "limits.memory")],
    });
    assert.deepEqual(node.env, { CPU: "4", M: String(8 * 2 ** 30) });
    const unlimited = await resolve({
      resources: { limits: { cpu: "0" } },
      env: [amount("CPU", "limits.cpu"), amount("HUGE", "limits.hugepages-2Mi")],
    });
    assert.deepEqual(unlimited.env, { CPU: "4", HUGE: "0" });
  });

  it("leaves variables from files, and what refers to them, to a provider that reads files", async () => {
    const file = { volumeName: "data", path: "env", key: "K" };
    const from = { name: "K", valueFrom: { fileKeyRef: file } };
    const other = { ...pod, spec: { ...pod.spec, volumes: [{ name: "data", emptyDir: {} }] } };
    const env = [from, { name: "B", value: "$(K)-$$" }, { name: "C", value: "plain" }];
    const options = { pod: other, readsFiles: true };
    const { env: values, all } = await resolve({ env }, options);
    assert.deepEqual(values, { K: "", B: "", C: "plain" });
    assert.deepEqual([...(all?.files ?? [])], [["K", [file]]]);
    assert.deepEqual([...(all?.lateTemplates ?? [])], [["B", "$(K)-$$"]]);
    const { error } = await resolve({ env }, { readsFiles: true });
    assert.match(String(error), /cannot find the volume "data" referenced by FileKeyRef/);
    const long = { name: "L", valueFrom: { fileKeyRef: { ...file, key: "k".repeat(129) } } };
    assert.match(String((await resolve({ env: [long] }, options)).error), /maximum length of 128/);
  });

  it("keeps what a variable is for the case that an optional file has no value, as a kubelet does", async () => {
    const file = { volumeName: "data", path: "env", key: "K", optional: true };
    const fromFile = (name: string, more: Partial<typeof file> = {}): EnvVar => ({
      name,
      valueFrom: { fileKeyRef: { ...file, ...more } },
    });
    const other = { ...pod, spec: { ...pod.spec, volumes: [{ name: "data", emptyDir: {} }] } };
    const env = [
      { name: "A", value: "a$" },
      fromFile("A"),
      field("IP", "status.podIP"),
      fromFile("IP"),
      { name: "REF", value: "<$(IP)>" },
      fromFile("REF"),
      fromFile("PORT"),
      fromFile("NONE"),
      fromFile("TWICE"),
      fromFile("TWICE", { path: "other" }),
      { name: "BOTH", value: "both" },
      fromFile("BOTH"),
      fromFile("BOTH", { path: "other" }),
      fromFile("MUST"),
      fromFile("MUST", { path: "must", optional: false }),
      fromFile("MUST", { path: "other" }),
      { name: "LAST", value: "1" },
      fromFile("LAST"),
      { name: "LAST", value: "2" },
    ];
    const services = new Map([["PORT", "80"]]);
    const { all } = await resolve({ env }, { pod: other, readsFiles: true, services });
    assert.ok(all);
    const resolved = resolvedWith(other, {
      env: new Map([["main", all.env]]),
      lateEnv: new Map([["main", all.late]]),
      lateTemplates: new Map([["main", all.lateTemplates]]),
      fileEnv: new Map([["main", all.files]]),
    });
    const bound = bindLateEnv(resolved, "main", { podIPs: ["10.1.1.1"], hostIPs: [] });
    assert.deepEqual(
      bound.map(({ name, value, file: from, template }) => [
        name,
        from ? `file ${from.path}` : (template ?? value),
      ]),
      [
        ["A", "a$"],
        ["A", "file env"],
        ["IP", "10.1.1.1"],
        ["IP", "file env"],
        ["REF", "<$(IP)>"],
        ["REF", "file env"],
        ["PORT", "80"],
        ["PORT", "file env"],
        ["NONE", "file env"],
        ["TWICE", "file env"],
        ["TWICE", "file other"],
        ["BOTH", "both"],
        ["BOTH", "file env"],
        ["BOTH", "file other"],
        ["MUST", "file must"],
        ["MUST", "file other"],
        ["LAST", "2"],
      ],
    );
  });

  it("names an unknown source", async () => {
    const unknown = { name: "K", valueFrom: { fileKeyRef: {} } } as EnvVar;
    const { error } = await resolve({ env: [unknown] });
    assert.match(String(error), /fileKeyRef/);
    const path = await resolve({ env: [field("F", "status.nothing")] });
    assert.match(String(path.error), /unsupported fieldPath: status.nothing/);
  });

  it("costs time linear in the number of variables, and of services", async () => {
    const sources = (count: number): EnvSources => ({
      pod,
      references: fakeReferences({}),
      services: new Map(Array.from({ length: count }, (_, index) => [`S${index}_PORT`, "1"])),
      allocatable: {},
      notify: () => {},
    });
    await assertScales((count) => {
      const env = Array.from({ length: count }, (_, index) => ({
        name: `V${index}`,
        value: `$(S${index}_PORT) $$ $(MISSING)`,
      }));
      return () => containerEnv({ name: "main", env }, sources(count));
    }, 10_000);
    await assertScales((count) => {
      const late = { name: "IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } };
      const env = Array.from({ length: count }, (_, index) => ({
        name: `V${index}`,
        value: `$(IP) $(S${index}_PORT)`,
      }));
      return () => containerEnv({ name: "main", env: [late, ...env] }, sources(count));
    }, 10_000);
    await assertScales((count) => {
      const containers = Array.from({ length: count }, (_, index) => ({ name: `c${index}` }));
      const env = containers.map(({ name: containerName }, index) => ({
        name: `V${index}`,
        valueFrom: { resourceFieldRef: { containerName, resource: "limits.cpu" } },
      }));
      const large: Pod = { ...pod, spec: { containers } };
      return () => containerEnv({ name: "main", env }, { ...sources(0), pod: large });
    }, 10_000);
  });
});

describe("containerEnv(), of a large pod", () => {
  it("costs time linear in the number of volumes and of variables from files", async () => {
    await assertScales((count) => {
      const names = Array.from({ length: count }, (_, at) => `volume-${at}`);
      const last = names.at(-1) ?? "";
      const env = names.map((name) => ({
        name,
        valueFrom: { fileKeyRef: { volumeName: last, path: "a", key: "k" } },
      }));
      const volumes = names.map((name) => ({ name, emptyDir: {} }));
      const large = podWith({ spec: { volumes, containers: [{ name: "main", env }] } });
      const [main] = large.spec.containers;
      assert.ok(main);
      const sources = {
        pod: large,
        references: { read: async () => undefined },
        services: new Map<string, string>(),
        allocatable: {},
        notify: () => {},
        readsFiles: true,
      };
      return () => containerEnv(main, sources);
    }, 10_000);
  });
});

describe("bindLateEnv()", () => {
  it("fills in addresses and what refers to them, in order", async () => {
    const env = [
      field("IP", "status.podIP"),
      field("IPS", "status.podIPs"),
      field("HOST", "status.hostIP"),
      { name: "PORT", value: "80" },
      { name: "URL", value: "http://$(IP):$(PORT)/$$(IP)/$(NONE)" },
      { name: "TWICE", value: "<$(URL)>" },
      { name: "IP", value: "fixed" },
    ];
    const { all } = await resolve({ env: env.slice(0, 6) });
    assert.ok(all);
    const resolved = resolvedWith(pod, {
      env: new Map([["main", all.env]]),
      lateEnv: new Map([["main", all.late]]),
      lateTemplates: new Map([["main", all.lateTemplates]]),
    });
    assert.deepEqual(
      [...(resolved.lateEnv.get("main") ?? [])],
      [
        ["IP", "status.podIP"],
        ["IPS", "status.podIPs"],
        ["HOST", "status.hostIP"],
      ],
    );
    const addresses = { podIPs: ["10.1.1.1", "fd00::1"], hostIPs: ["192.0.2.1"] };
    const bound = bindLateEnv(resolved, "main", addresses);
    assert.deepEqual(Object.fromEntries(bound.map(({ name, value }) => [name, value])), {
      IP: "10.1.1.1",
      IPS: "10.1.1.1,fd00::1",
      HOST: "192.0.2.1",
      PORT: "80",
      URL: "http://10.1.1.1:80/$(IP)/$(NONE)",
      TWICE: "<http://10.1.1.1:80/$(IP)/$(NONE)>",
    });
    const overridden = await resolve({ env });
    assert.equal(overridden.all?.late.has("IP"), false);
  });
});
