import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Container } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { desiredContainer } from "./desired-container.ts";

function policyOf(container: Pick<Container, "image" | "imagePullPolicy">): string {
  const whole = { name: "main", ...container };
  const pod = podWith({ spec: { containers: [whole] } });
  const resolved = { pod, env: new Map(), lateEnv: new Map(), files: new Map(), pullSecrets: [] };
  const addresses = { podIPs: [], hostIPs: [] };
  return desiredContainer(resolved satisfies ResolvedPod, whole, addresses).imagePullPolicy;
}

describe("desiredContainer(), by pull policy", () => {
  const digest = `sha256:${"0".repeat(64)}`;
  for (const [image, policy] of [
    ["busybox", "Always"],
    ["busybox:latest", "Always"],
    ["localhost:5000/app", "Always"],
    ["localhost:5000/app:latest", "Always"],
    ["busybox:1.36", "IfNotPresent"],
    ["localhost:5000/app:1", "IfNotPresent"],
    [`r.test/app@${digest}`, "IfNotPresent"],
    [`r.test/app:1@${digest}`, "IfNotPresent"],
  ] as const)
    it(`of ${image} is ${policy} unless the pod says`, () => {
      assert.equal(policyOf({ image }), policy);
      assert.equal(policyOf({ image, imagePullPolicy: "Never" }), "Never");
    });
});

describe("desiredContainer()", () => {
  it("passes probes by gRPC on, and a probe's own grace period", () => {
    const grpc = { port: 50_051, service: "web" };
    const livenessProbe = { grpc, terminationGracePeriodSeconds: 5 };
    const whole = {
      name: "main",
      image: "busybox",
      livenessProbe,
      readinessProbe: { grpc: { port: 1 } },
    };
    const pod = podWith({ spec: { containers: [whole] } });
    const resolved = { pod, env: new Map(), lateEnv: new Map(), files: new Map(), pullSecrets: [] };
    const desired = desiredContainer(resolved, whole, { podIPs: [], hostIPs: [] });
    assert.deepEqual(desired.livenessProbe, livenessProbe);
    assert.deepEqual(desired.readinessProbe, { grpc: { port: 1 } });
  });

  it("passes the target of an ephemeral container on", () => {
    const debug = { name: "debug", image: "busybox", targetContainerName: "main" };
    const pod = podWith();
    const resolved = { pod, env: new Map(), lateEnv: new Map(), files: new Map(), pullSecrets: [] };
    const desired = desiredContainer(resolved, debug, { podIPs: [], hostIPs: [] });
    assert.equal(desired.targetContainer, "main");
  });
});

describe("desiredContainer(), of all that an agent knows", () => {
  const resolvedWith = (pod: ReturnType<typeof podWith>): ResolvedPod => ({
    pod,
    env: new Map([["main", [{ name: "WHO", value: "me" }]]]),
    lateEnv: new Map([["main", new Map([["IP", "status.podIP"]])]]),
    files: new Map(),
    pullSecrets: [],
  });
  const addresses = { podIPs: ["10.0.0.7"], hostIPs: [] };

  function desired(main: Partial<Container>, securityContext?: object) {
    const container = { name: "main", image: "busybox:1", ...main };
    const spec = { containers: [container], ...(securityContext && { securityContext }) };
    return desiredContainer(resolvedWith(podWith({ spec })), container, addresses);
  }

  it("expands variables in command, args and subPathExpr", () => {
    const { command, args, mounts, env } = desired({
      command: ["echo", "$(WHO)"],
      args: ["$(WHO)-$$(WHO)", "$(NONE)"],
      volumeMounts: [
        { name: "a", mountPath: "/a", subPathExpr: "of-$(WHO)" },
        { name: "b", mountPath: "/b", subPath: "$(WHO)", readOnly: true },
      ],
    });
    assert.deepEqual(
      [command, args],
      [
        ["echo", "me"],
        ["me-$(WHO)", "$(NONE)"],
      ],
    );
    assert.deepEqual(mounts, [
      { name: "a", mountPath: "/a", subPath: "of-me" },
      { name: "b", mountPath: "/b", subPath: "$(WHO)", readOnly: true },
    ]);
    assert.ok(env.some(({ name, value }) => name === "WHO" && value === "me"));
  });

  it("passes terminal, working directory and termination message on", () => {
    const own = {
      workingDir: "/srv",
      stdin: true,
      stdinOnce: true,
      tty: true,
      terminationMessagePath: "/end",
      terminationMessagePolicy: "FallbackToLogsOnError",
      restartPolicy: "Always",
    } as const;
    const all: Readonly<Record<string, unknown>> = desired(own);
    for (const [name, value] of Object.entries(own)) assert.deepEqual(all[name], value, name);
    assert.equal(desired({}).terminationMessagePath, "/dev/termination-log");
    assert.equal(desired({}).terminationMessagePolicy, "File");
  });

  it("passes limits and requests on, in thousandths and bytes", () => {
    const resources = {
      limits: { cpu: "1500m", memory: "64Mi" },
      requests: { cpu: "1", memory: "32Mi" },
    };
    const { cpuMilliLimit, cpuMilliRequest, memoryBytesLimit, memoryBytesRequest } = desired({
      resources,
    });
    assert.deepEqual([cpuMilliLimit, cpuMilliRequest], [1500, 1000]);
    assert.deepEqual([memoryBytesLimit, memoryBytesRequest], [2 ** 26, 2 ** 25]);
    // The scheduler does not check a resize, and the agent only accepts whole numbers.
    const largest = desired({ resources: { limits: { memory: "15E" } } }).memoryBytesLimit;
    assert.equal(largest, Number.MAX_SAFE_INTEGER);
  });

  it("passes the resources on of which a change restarts the container", () => {
    const policy = (resourceName: string, restartPolicy: string) => ({
      resourceName,
      restartPolicy,
    });
    const resizePolicy = [policy("memory", "RestartContainer"), policy("cpu", "NotRequired")];
    assert.deepEqual(desired({ resizePolicy }).resizeRestarts, ["memory"]);
    assert.equal(desired({}).resizeRestarts, undefined);
  });

  it("prefers the container's security context to the pod's", () => {
    const ofPod = {
      runAsUser: 1,
      runAsGroup: 2,
      runAsNonRoot: true,
      supplementalGroups: [3],
      supplementalGroupsPolicy: "Strict",
    };
    const plain = desired({}, ofPod);
    assert.deepEqual([plain.user, plain.group, plain.runAsNonRoot], [1, 2, true]);
    assert.deepEqual([plain.supplementalGroups, plain.supplementalGroupsPolicy], [[3], "Strict"]);
    const securityContext = {
      runAsUser: 0,
      runAsGroup: 9,
      runAsNonRoot: false,
      privileged: true,
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: false,
      capabilities: { add: ["NET_ADMIN"], drop: ["ALL"] },
    };
    const own = desired({ securityContext }, ofPod);
    assert.deepEqual([own.user, own.group, own.runAsNonRoot], [0, 9, false]);
    assert.deepEqual(
      [own.privileged, own.readOnlyRootFilesystem, own.allowPrivilegeEscalation],
      [true, true, false],
    );
    assert.deepEqual([own.addCapabilities, own.dropCapabilities], [["NET_ADMIN"], ["ALL"]]);
  });

  it("filters system calls where the container, or else its pod, wants that", () => {
    const runtimeDefault = { seccompProfile: { type: "RuntimeDefault" } };
    const unconfined = { seccompProfile: { type: "Unconfined" } };
    assert.equal(desired({}).seccomp, undefined);
    assert.equal(desired({}, runtimeDefault).seccomp, "RuntimeDefault");
    assert.equal(
      desired({ securityContext: runtimeDefault }, unconfined).seccomp,
      "RuntimeDefault",
    );
    assert.equal(desired({ securityContext: unconfined }, runtimeDefault).seccomp, undefined);
  });

  it("names the profile of a file, and passes procMount on where it is Unmasked", () => {
    const localhost = { seccompProfile: { type: "Localhost", localhostProfile: "a.json" } };
    const chosen = (own: object, ofPod = {}): readonly unknown[] => {
      const { seccomp, seccompProfile } = desired({ securityContext: own }, ofPod);
      return [seccomp, seccompProfile];
    };
    const none = [undefined, undefined];
    assert.deepEqual(chosen(localhost), ["Localhost", "a.json"]);
    assert.deepEqual(chosen({}, localhost), ["Localhost", "a.json"]);
    assert.deepEqual(chosen({ seccompProfile: { type: "Unconfined" } }, localhost), none);
    assert.deepEqual(chosen({ privileged: true }, localhost), none);
    const unmasked = desired({ securityContext: { procMount: "Unmasked" } });
    assert.equal(unmasked.procMount, "Unmasked");
    assert.equal(desired({ securityContext: { procMount: "Default" } }).procMount, undefined);
  });

  it("passes all kinds of probes on, with ports by name", () => {
    const times = {
      initialDelaySeconds: 1,
      timeoutSeconds: 2,
      periodSeconds: 3,
      successThreshold: 4,
      failureThreshold: 5,
    };
    const { livenessProbe, readinessProbe, startupProbe } = desired({
      ports: [{ name: "web", containerPort: 8080 }],
      livenessProbe: { tcpSocket: { port: "web", host: "127.0.0.1" }, ...times },
      readinessProbe: {
        httpGet: {
          port: "web",
          scheme: "HTTPS",
          host: "example.test",
          httpHeaders: [
            { name: "A", value: "1" },
            { name: "A", value: "2" },
          ],
        },
      },
      startupProbe: { exec: { command: ["true"] } },
    });
    assert.deepEqual(livenessProbe, { tcpSocket: { port: 8080, host: "127.0.0.1" }, ...times });
    assert.deepEqual(readinessProbe, {
      httpGet: {
        path: "/",
        port: 8080,
        scheme: "HTTPS",
        host: "example.test",
        headers: [
          { name: "A", value: "1" },
          { name: "A", value: "2" },
        ],
      },
    });
    assert.deepEqual(startupProbe, { exec: { command: ["true"] } });
  });

  it("passes the name of a port on that the container lacks", () => {
    const { livenessProbe, readinessProbe, startupProbe, preStop } = desired({
      livenessProbe: { tcpSocket: { port: "web" } },
      readinessProbe: { httpGet: { port: "0x50" } },
      startupProbe: { httpGet: { port: "8080" } },
      lifecycle: { preStop: { httpGet: { port: "web" } } },
    });
    assert.deepEqual(livenessProbe, { tcpSocket: { port: 0, portName: "web" } });
    assert.deepEqual(readinessProbe, { httpGet: { path: "/", port: 0, portName: "0x50" } });
    assert.deepEqual(startupProbe, { httpGet: { path: "/", port: 8080 } });
    assert.deepEqual(preStop, { httpGet: { path: "/", port: 0, portName: "web" } });
  });

  it("passes hooks on; one by tcpSocket has nothing to do, and so fails on the cell", () => {
    const { postStart, preStop } = desired({
      lifecycle: { postStart: { tcpSocket: { port: 80 } }, preStop: { sleep: { seconds: 3 } } },
    });
    assert.deepEqual([postStart, preStop], [{}, { sleepSeconds: 3 }]);
  });

  it("expands commands of probes with what env says itself, and not those of hooks", () => {
    const command = ["$(A)", "$(B)", "$(WHO)", "$$(A)"];
    const { livenessProbe, preStop } = desired({
      env: [
        { name: "A", value: "a $(WHO)" },
        { name: "B", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
      ],
      livenessProbe: { exec: { command } },
      lifecycle: { preStop: { exec: { command } } },
    });
    assert.deepEqual(livenessProbe?.exec?.command, ["a $(WHO)", "", "$(WHO)", "$(A)"]);
    assert.deepEqual(preStop?.exec?.command, command);
  });

  it("passes the stop signal and the restart policy with its rules on", () => {
    const exitCodes = { operator: "In", values: [42] };
    const restartPolicyRules = [{ action: "Restart", exitCodes }];
    const lifecycle = { stopSignal: "SIGUSR1" };
    const one = desired({ lifecycle, restartPolicy: "Never", restartPolicyRules });
    assert.equal(one.stopSignal, "SIGUSR1");
    assert.deepEqual([one.restartPolicy, one.restartPolicyRules], ["Never", restartPolicyRules]);
  });

  it("leaves variables from files, and what refers to them, to the cell", () => {
    const file = { volumeName: "data", path: "env", key: "K" };
    const main = { name: "main", image: "i", command: ["$(K)", "$(WHO)$$", "$(B)", "$(NONE)"] };
    const resolved: ResolvedPod = {
      ...resolvedWith(podWith({ spec: { containers: [main] } })),
      env: new Map([
        [
          "main",
          [
            { name: "WHO", value: "me$" },
            { name: "K", value: "" },
            { name: "IP", value: "" },
            { name: "B", value: "" },
          ],
        ],
      ]),
      lateTemplates: new Map([["main", new Map([["B", "$(K) $(IP) $(WHO) $$$$"]])]]),
      fileEnv: new Map([["main", new Map([["K", [file]]])]]),
    };
    const { env, command, hasLateArguments } = desiredContainer(resolved, main, addresses);
    assert.deepEqual(env, [
      { name: "WHO", value: "me$" },
      {
        name: "K",
        value: "",
        file: { volume: "data", path: "env", key: "K", isOptional: false },
      },
      { name: "IP", value: "10.0.0.7" },
      { name: "B", value: "", template: "$(K) 10.0.0.7 me$$ $$$$" },
    ]);
    assert.deepEqual(command, ["$(K)", "me$$$$", "$(B)", "$$(NONE)"]);
    assert.equal(hasLateArguments, true);
  });

  it("sends what a variable is before an optional file, for the case that the file has no value", () => {
    const main = { name: "main", image: "i", command: ["$(K)"] };
    const file = { volumeName: "data", path: "env", key: "K", optional: true };
    const env = [
      { name: "K", value: "before" },
      { name: "K", value: "" },
    ];
    const resolved = {
      ...resolvedWith(podWith({ spec: { containers: [main] } })),
      env: new Map([["main", env]]),
      fileEnv: new Map([["main", new Map([["K", [file]]])]]),
    };
    const sent = desiredContainer(resolved, main, addresses);
    const fromFile = { volume: "data", path: "env", key: "K", isOptional: true };
    assert.deepEqual(sent.env, [env[0], { ...env[1], file: fromFile }]);
    assert.deepEqual(sent.command, ["$(K)"]);
  });

  it("leaves paths with such variables to the cell, and no others", () => {
    const volumeMounts = ["$(K)/$(WHO)/$$(K)", "$(WHO)", "$(K)/$(NONE)"].map((subPathExpr) => {
      return { name: "a", mountPath: "/a", subPathExpr };
    });
    const sent = (count: number) => {
      const main = { name: "main", image: "i", volumeMounts: volumeMounts.slice(0, count) };
      const file = { volumeName: "data", path: "env", key: "K" };
      return desiredContainer(
        {
          ...resolvedWith(podWith({ spec: { containers: [main] } })),
          env: new Map([
            [
              "main",
              [
                { name: "K", value: "" },
                { name: "WHO", value: "me" },
              ],
            ],
          ]),
          fileEnv: new Map([["main", new Map([["K", [file]]])]]),
        },
        main,
        addresses,
      );
    };
    const { mounts, configProblem } = sent(2);
    assert.deepEqual(mounts, [
      { name: "a", mountPath: "/a", subPathTemplate: "$(K)/me/$$(K)" },
      { name: "a", mountPath: "/a", subPath: "me" },
    ]);
    assert.equal(configProblem, undefined);
    assert.match(sent(3).configProblem ?? "", /NONE has no value/);
  });

  it("says why a container cannot be created yet, without expanding what it lacks", () => {
    const volumeMounts = [{ name: "a", mountPath: "/a", subPathExpr: "$(K)" }];
    const main = { name: "main", image: "i", volumeMounts };
    const resolved = {
      ...resolvedWith(podWith({ spec: { containers: [main] } })),
      env: new Map(),
      missingEnv: new Map([["main", 'configmap "c" not found']]),
    };
    const { configProblem, env, mounts } = desiredContainer(resolved, main, addresses);
    assert.equal(configProblem, 'configmap "c" not found');
    assert.deepEqual([env, mounts], [[], [{ name: "a", mountPath: "/a" }]]);
  });

  it("says of a path without a value that the container cannot be created, and goes on", () => {
    const volumeMounts = [{ name: "a", mountPath: "/a", subPathExpr: "$(NONE)" }];
    const { configProblem, env } = desired({ volumeMounts });
    assert.equal(configProblem, 'cannot expand subPathExpr "$(NONE)": NONE has no value');
    assert.deepEqual(env, [{ name: "WHO", value: "me" }]);
  });

  it("makes submounts of a mount that is only read read-only, where that is wanted", () => {
    const mount = { name: "a", mountPath: "/a", readOnly: true };
    const of = (more: object): unknown =>
      desired({ volumeMounts: [{ ...mount, ...more }] }).mounts[0]?.recursiveReadOnly;
    assert.equal(of({}), undefined);
    assert.equal(of({ recursiveReadOnly: "Disabled" }), undefined);
    assert.equal(of({ recursiveReadOnly: "Enabled" }), true);
    assert.equal(of({ recursiveReadOnly: "IfPossible" }), true);
  });

  it("passes extended resources on, and no others", () => {
    const limits = { cpu: "1", "example.com/card": "2", "hugepages-2Mi": "2Mi" };
    const card = [{ resource: "example.com/card", count: 2 }];
    assert.deepEqual(desired({ resources: { limits } }).extendedResources, card);
    assert.equal(desired({ resources: { limits: { cpu: "1" } } }).extendedResources, undefined);
  });

  it("passes the propagation of mounts on", () => {
    const mount = { name: "data", mountPath: "/data" };
    const of = (more: object): string | undefined =>
      desired({ volumeMounts: [{ ...mount, ...more }] }).mounts[0]?.propagation;
    assert.equal(of({}), undefined);
    assert.equal(of({ mountPropagation: "None" }), undefined);
    assert.equal(of({ mountPropagation: "HostToContainer" }), "HostToContainer");
    assert.equal(of({ mountPropagation: "Bidirectional" }), "Bidirectional");
  });
});
