import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { growth } from "@kip/base/testing";
import type {
  Container,
  NodeSelectorRequirement,
  NodeSelectorTerm,
  Pod,
  PodSpec,
} from "@kip/k8s-types";
import { podWith, type PodParts } from "@kip/k8s-types/testing";
import { admitPod } from "./admit-pod.ts";
import { TakenHostPorts } from "./host-ports.ts";
import type { AdmissionContext, Rejection } from "./rejection.ts";

const allocatable = { cpu: "2", memory: "4Gi", pods: "20", "ephemeral-storage": "100Gi" };

const context: AdmissionContext = { labels: {}, allocatable, otherPods: () => [] };

function judge(spec: Partial<PodSpec>, metadata: PodParts["metadata"] = {}): Rejection | undefined {
  return admitPod(podWith({ spec, metadata }), context);
}

/** Whether a pod with this required node affinity is admitted. */
function isTaken(terms: readonly NodeSelectorTerm[], labels: AdmissionContext["labels"] = {}) {
  const required = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } };
  const spec = { nodeName: "kip-1", affinity: { nodeAffinity: required } };
  return admitPod(podWith({ spec }), { ...context, labels }) === undefined;
}

function sysctl(name: string, spec: Partial<PodSpec> = {}): string | undefined {
  const securityContext = { sysctls: [{ name, value: "1" }] };
  const rejection = judge({ ...spec, securityContext });
  return rejection && `${rejection.reason}: ${rejection.message}`;
}

function requests(quantities: Container["resources"], more: Partial<PodSpec> = {}) {
  return judge({ containers: [{ name: "main", resources: quantities ?? {} }], ...more });
}

describe("admitPod()", () => {
  it("takes a pod that asks for nothing unusual", () => {
    const nodeSelector = { "kubernetes.io/os": "linux", "example.com/rack": "7" };
    assert.equal(judge({ os: { name: "linux" }, nodeSelector }), undefined);
    assert.equal(judge({}, { labels: { "kubernetes.io/os": "linux" } }), undefined);
  });

  it("refuses another system, by field, label and node selector", () => {
    assert.deepEqual(judge({ os: { name: "windows" } }), {
      reason: "PodOSNotSupported",
      message: "Failed to admit pod as the OS field doesn't match node OS",
    });
    assert.equal(
      judge({}, { labels: { "kubernetes.io/os": "windows" } })?.reason,
      "PodOSSelectorNodeLabelDoesNotMatch",
    );
    assert.deepEqual(judge({ nodeSelector: { "kubernetes.io/arch": "arm64" } }), {
      reason: "NodeAffinity",
      message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    });
  });

  it("takes a node selector for a label that objects of JavaScript have as a property", () => {
    for (const key of ["constructor", "toString", "__proto__"]) {
      const requirement = { key, operator: "In", values: ["x"] } as const;
      assert.equal(judge({ nodeSelector: { [key]: "x" } }), undefined, key);
      assert.ok(isTaken([{ matchExpressions: [requirement] }]), key);
    }
  });

  it("takes a node selector for the processor that the node's label names", () => {
    const pod = podWith({ spec: { nodeSelector: { "kubernetes.io/arch": "arm64" } } });
    const labels = { "kubernetes.io/arch": "arm64" };
    assert.equal(admitPod(pod, { ...context, labels }), undefined);
  });

  it("refuses a required node affinity for another system, processor or node", () => {
    const arch = { key: "kubernetes.io/arch" };
    const name = { key: "metadata.name" };
    const isMet = (one: Omit<NodeSelectorRequirement, "key">, value?: string): boolean => {
      const labels = value === undefined ? {} : { [arch.key]: value };
      return isTaken([{ matchExpressions: [{ ...arch, ...one }] }], labels);
    };
    assert.ok(isMet({ operator: "In", values: ["arm64", "amd64"] }));
    assert.ok(!isMet({ operator: "In", values: ["arm64"] }));
    assert.ok(isMet({ operator: "In", values: ["arm64"] }, "arm64"));
    assert.ok(isMet({ operator: "NotIn", values: ["arm64"] }));
    assert.ok(!isMet({ operator: "NotIn", values: ["amd64"] }));
    assert.ok(isMet({ operator: "Exists" }));
    assert.ok(!isMet({ operator: "DoesNotExist" }));
    for (const [operator, below, above] of [
      ["Gt", true, false],
      ["Lt", false, true],
    ] as const) {
      assert.equal(isMet({ operator, values: ["9"] }, "10"), below);
      assert.equal(isMet({ operator, values: ["11"] }, "10"), above);
      assert.ok(!isMet({ operator, values: ["10"] }, "10"));
      assert.ok(!isMet({ operator, values: ["10"] }, "amd64"));
    }
    const named = (operator: string, value: string) => ({
      matchFields: [{ ...name, operator, values: [value] }],
    });
    assert.ok(isTaken([named("In", "kip-1")]) && isTaken([named("NotIn", "kip-2")]));
    assert.ok(!isTaken([named("In", "kip-2")]) && !isTaken([named("NotIn", "kip-1")]));
    // Terms are alternatives, requirements within a term are not. A label that the node lacks counts as met.
    const rack = { matchExpressions: [{ key: "rack", operator: "In", values: ["7"] }] };
    assert.ok(isTaken([named("In", "kip-2"), rack]));
    assert.ok(!isTaken([{ ...rack, ...named("In", "kip-2") }, {}]));
  });

  it("judges by all labels that the node has, and by no others", () => {
    const labels = { rack: "7", "kubernetes.io/arch": "amd64" };
    const isMet = (one: Omit<NodeSelectorRequirement, "key">): boolean =>
      isTaken([{ matchExpressions: [{ key: "rack", ...one }] }], labels);
    assert.ok(
      isMet({ operator: "In", values: ["7"] }) && !isMet({ operator: "In", values: ["8"] }),
    );
    assert.ok(!isMet({ operator: "NotIn", values: ["7"] }) && !isMet({ operator: "DoesNotExist" }));
    assert.ok(
      isMet({ operator: "Gt", values: ["6"] }) && !isMet({ operator: "Gt", values: ["7"] }),
    );
    const select = (nodeSelector: Readonly<Record<string, string>>) =>
      admitPod(podWith({ spec: { nodeSelector } }), { ...context, labels })?.reason;
    assert.equal(select({ rack: "8" }), "NodeAffinity");
    assert.equal(select({ rack: "7", "node.elotl.co/gpu-t4": "" }), undefined);
  });

  it("refuses sysctls that are not safe, however they are written", () => {
    for (const safe of ["kernel.shm_rmid_forced", "net.ipv4.tcp_wmem", "net/ipv4/tcp_syncookies"])
      assert.equal(sysctl(safe), undefined);
    assert.equal(
      sysctl("kernel.msgmax"),
      'SysctlForbidden: forbidden sysctl: "kernel.msgmax" not allowlisted',
    );
    assert.equal(
      sysctl("net/ipv4/conf/eth0.1/forwarding"),
      'SysctlForbidden: forbidden sysctl: "net.ipv4.conf.eth0/1.forwarding" not allowlisted',
    );
  });

  it("refuses sysctls of a namespace that the pod shares with its node", () => {
    assert.equal(
      sysctl("net.ipv4.tcp_syncookies", { hostNetwork: true }),
      'SysctlForbidden: forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled',
    );
    assert.equal(
      sysctl("kernel.shm_rmid_forced", { hostIPC: true }),
      'SysctlForbidden: forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host IPC enabled',
    );
    assert.equal(sysctl("kernel.shm_rmid_forced", { hostNetwork: true }), undefined);
  });

  it("takes sysctls that the node's settings allow, if the pod has their namespace for itself", () => {
    const allowedUnsafeSysctls = ["kernel.msg*", "kernel.sem", "net/core/*", "fs.mqueue.msg_max"];
    const reject = (name: string, spec: Partial<PodSpec> = {}): string | undefined => {
      const sysctls = [{ name: "net.ipv4.tcp_rmem", value: "1" }].concat({ name, value: "1" });
      const securityContext = { sysctls: spec.hostNetwork === true ? sysctls.slice(1) : sysctls };
      const pod = podWith({ spec: { ...spec, securityContext } });
      return admitPod(pod, { ...context, allowedUnsafeSysctls })?.message;
    };
    for (const name of ["kernel.msgmax", "kernel.sem", "net.core.somaxconn", "net/core/x.1/y"])
      assert.equal(reject(name), undefined, name);
    for (const name of ["kernel.shmmax", "kernel.sem2", "net.corex", "fs.mqueue.msg_max_x"])
      assert.equal(reject(name), `forbidden sysctl: "${name}" not allowlisted`);
    for (const name of ["kernel.msgmax", "kernel.sem", "fs.mqueue.msg_max"]) {
      const words = `forbidden sysctl: "${name}" not allowed with host IPC enabled`;
      assert.equal(reject(name, { hostIPC: true }), words);
      assert.equal(reject(name, { hostNetwork: true }), undefined);
    }
    const words = 'forbidden sysctl: "net.core.somaxconn" not allowed with host Net enabled';
    assert.equal(reject("net/core/somaxconn", { hostNetwork: true }), words);
    assert.equal(reject("net.core.somaxconn", { hostIPC: true }), undefined);
  });

  it("refuses more than the node offers, whatever other pods use", () => {
    assert.equal(requests({ requests: { cpu: "2", memory: "4Gi" } }), undefined);
    assert.deepEqual(requests({ requests: { cpu: "2100m" } }), {
      reason: "OutOfcpu",
      message: "Node didn't have enough resource: cpu, requested: 2100, used: 0, capacity: 2000",
    });
    assert.equal(requests({ requests: { memory: "5Gi" } })?.reason, "OutOfmemory");
    assert.equal(requests({}, { overhead: { memory: "5Gi" } })?.reason, "OutOfmemory");
    assert.equal(
      requests({ requests: { "hugepages-2Mi": "4Mi" } })?.message,
      "Node didn't have enough resource: hugepages-2Mi, requested: 4194304, used: 0, capacity: 0",
    );
    assert.equal(requests({ requests: { "example.com/fpga": "1" } }), undefined);
    const card = "example.com/card";
    const pod = podWith({
      spec: { containers: [{ name: "main", resources: { requests: { [card]: "3" } } }] },
    });
    const offered = { ...allocatable, [card]: "2" };
    assert.deepEqual(admitPod(pod, { ...context, allocatable: offered }), {
      reason: `OutOf${card}`,
      message: `Node didn't have enough resource: ${card}, requested: 3, used: 0, capacity: 2`,
    });
  });

  it("counts the largest init container beside the sidecars before it", () => {
    const of = (name: string, cpu: string, sidecar = false): Container => ({
      name,
      resources: { requests: { cpu } },
      ...(sidecar && { restartPolicy: "Always" }),
    });
    const containers = [of("main", "1")];
    assert.equal(judge({ containers, initContainers: [of("a", "2"), of("b", "2")] }), undefined);
    assert.equal(
      judge({ containers, initContainers: [of("proxy", "500m", true), of("b", "1600m")] })?.message,
      "Node didn't have enough resource: cpu, requested: 2100, used: 0, capacity: 2000",
    );
  });

  it("refuses profiles of AppArmor, of the pod, of a container and of an annotation", () => {
    const refused = {
      reason: "AppArmor",
      message: "Cannot enforce AppArmor: AppArmor is not enabled on the host",
    };
    const containers = [{ name: "main" }];
    const securityContext = { appArmorProfile: { type: "RuntimeDefault" } };
    const unconfined = { appArmorProfile: { type: "Unconfined" } };
    const annotations = {
      "container.apparmor.security.beta.kubernetes.io/main": "runtime/default",
    };
    assert.deepEqual(judge({ containers, securityContext }), refused);
    assert.deepEqual(judge({ containers: [{ name: "main", securityContext }] }), refused);
    assert.deepEqual(judge({ containers }, { annotations }), refused);
    const main = { name: "main", securityContext: unconfined };
    assert.deepEqual(judge({ securityContext, containers: [main] }), refused);
    assert.equal(judge({ securityContext: unconfined, containers: [main] }), undefined);
    const name = Object.keys(annotations)[0] ?? "";
    assert.equal(judge({ containers }, { annotations: { [name]: "unconfined" } }), undefined);
    const local = { annotations: { [name]: "localhost/mine" } };
    assert.deepEqual(judge({ containers: [main] }, local), refused);
  });

  it("refuses a host port that another pod of the node has, or the agent", () => {
    const spec = (port: object, more: object = {}) => ({
      containers: [{ name: "main", ports: [{ containerPort: 80, hostPort: 8080, ...port }] }],
      ...more,
    });
    const beside = (own: Partial<PodSpec>, other: Partial<PodSpec>) =>
      admitPod(podWith({ spec: own }), {
        ...context,
        otherPods: () => [podWith({ spec: other })],
      })?.reason;
    const refused = "NodePorts";
    const loopback = { hostIP: "127.0.0.1" };
    assert.equal(beside(spec({}), spec({})), refused);
    assert.equal(beside(spec({}), spec(loopback)), refused);
    assert.equal(beside(spec({ hostIP: "0.0.0.0" }), spec(loopback)), refused);
    assert.equal(beside(spec({}, { hostNetwork: true }), spec({})), refused);
    assert.equal(beside(spec({ hostIP: "192.0.2.1" }), spec(loopback)), undefined);
    assert.equal(beside(spec({ protocol: "UDP" }), spec({})), undefined);
    assert.equal(beside(spec({ hostPort: 8081 }), spec({})), undefined);
    assert.deepEqual(judge(spec({ hostPort: 6421 })), {
      reason: refused,
      message:
        "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
    });
  });

  it("refuses a pod beyond the number of those that the node offers", () => {
    const pod = podWith({ spec: { nodeName: "kip-1", containers: [] } });
    const beside = (count: number) =>
      admitPod(pod, { ...context, otherPods: () => Array.from({ length: count }, () => pod) });
    assert.equal(beside(19), undefined);
    const uncounted = { ...context, otherPods: () => assert.fail("were listed") };
    assert.equal(admitPod(pod, { ...uncounted, mostOtherPods: 19 }), undefined);
    assert.deepEqual(beside(20), {
      reason: "OutOfpods",
      message: "Node didn't have enough resource: pods, requested: 1, used: 20, capacity: 20",
    });
  });

  it("hostile pod: adds up requests in time linear in containers and names of resources", async () => {
    const judgeMany = (size: number): unknown => {
      const names = Array.from({ length: size * 8 }, (_, at) => [`a.test/${at}`, "1"]);
      const first = { name: "c", resources: { requests: Object.fromEntries(names) } };
      const rest = Array.from({ length: size }, (_, at) => ({ name: `c${at}` }));
      return judge({ initContainers: rest, containers: [first, ...rest] });
    };
    assert.ok((await growth(judgeMany, 1000)) < 40);
  });

  it("hostile pod: compares host ports in time linear in their number", async () => {
    const portsAt = (hostIP: string, count: number): Partial<PodSpec> => {
      const ports = Array.from({ length: count }, (_, index) => {
        const port = index < 6000 ? index + 1 : index + 1000;
        return { containerPort: port, hostPort: port, hostIP };
      });
      return { containers: [{ name: "main", ports }] };
    };
    const judgeBeside = (count: number): void => {
      const other = podWith({ spec: portsAt("127.0.0.1", count) });
      const own = podWith({ spec: portsAt("127.0.0.2", count) });
      assert.equal(admitPod(own, { ...context, otherPods: () => [other] }), undefined);
    };
    assert.ok((await growth(judgeBeside, 20_000)) < 40);
  });

  it("hostile pod: looks up its host ports, however many other pods have", () => {
    const portsAt = (hostIP: string, count: number) => {
      const ports = Array.from({ length: count }, (_, at) => ({
        containerPort: 1,
        hostPort: at + 10_000,
        hostIP,
      }));
      return podWith({
        metadata: { uid: hostIP },
        spec: { containers: [{ name: "main", ports }] },
      });
    };
    const others = Array.from({ length: 100 }, (_, at) => portsAt(`127.0.0.${at + 2}`, 500));
    const own = portsAt("127.0.0.1", 500);
    const takenPorts = new TakenHostPorts();
    const large = { ...context, allocatable: { ...allocatable, pods: "200" } };
    const judgeOwn = () => admitPod(own, { ...large, otherPods: () => others, takenPorts });
    assert.equal(judgeOwn(), undefined);
    const before = process.threadCpuUsage().user;
    for (let turn = 0; turn < 20; turn++) assert.equal(judgeOwn(), undefined);
    const took = process.threadCpuUsage().user - before;
    // 10 ms. Comparing it with each pod would take 300 ms.
    assert.ok(took < 100_000, `${took} µs`);
  });

  it("frees the host ports of a pod that has ended, and of no other", () => {
    const at = (hostIP: string) => {
      const ports = [{ containerPort: 80, hostPort: 8080, hostIP }];
      return podWith({
        metadata: { uid: hostIP },
        spec: { containers: [{ name: "main", ports }] },
      });
    };
    const takenPorts = new TakenHostPorts();
    const [one, other] = [at("127.0.0.1"), at("127.0.0.2")];
    const isTaken = (pod: Pod, ...others: readonly Pod[]): boolean =>
      admitPod(pod, { ...context, otherPods: () => others, takenPorts }) !== undefined;
    const everywhere = at("0.0.0.0");
    assert.ok(isTaken(everywhere, one, other));
    assert.ok(isTaken(everywhere, other));
    assert.ok(!isTaken(one, other));
    assert.ok(!isTaken(everywhere));
    assert.ok(isTaken(one, everywhere));
  });

  it("refuses what cells do not have, by the field's path", () => {
    const message = (spec: Partial<PodSpec>): string | undefined => {
      const rejection = judge(spec);
      assert.equal(rejection?.reason ?? "PodFeatureUnsupported", "PodFeatureUnsupported");
      return rejection?.message.split(": ").slice(0, 2).join(": ");
    };
    const main = { name: "main" };
    const claim = { name: "device", resourceClaimName: "device" };
    assert.equal(message({ resourceClaims: [claim] }), "spec.resourceClaims: Forbidden");
    assert.equal(message({ hostUsers: false, resourceClaims: [] }), undefined);
    const unmasked = { ...main, securityContext: { procMount: "Unmasked" } };
    assert.equal(message({ hostUsers: false, containers: [unmasked] }), undefined);
    const devices = [{ name: "a", devicePath: "/dev/a" }];
    assert.equal(
      message({ initContainers: [{ ...main, volumeDevices: devices }] }),
      "spec.initContainers[0].volumeDevices: Forbidden",
    );
  });

  it("names the kubelet's first reason where there are several", () => {
    const securityContext = { sysctls: [{ name: "kernel.msgmax", value: "1" }] };
    assert.equal(judge({ os: { name: "windows" }, securityContext })?.reason, "SysctlForbidden");
  });
});
