import { readFile } from "node:fs/promises";
import { Readable } from "node:stream";
import { wireTime } from "@kip/k8s-client";
import type { Pod, PodStatus } from "@kip/k8s-types";
import {
  containerStatus,
  podConditions,
  type NodeFacts,
  type PodProvider,
  type ProviderCallbacks,
  type ProviderSetup,
  type ProviderStats,
  VirtualKubeletError,
} from "@kip/virtual-kubelet";
import { mockConfig, type MockConfig } from "./mock-config.ts";

const podIP = "5.6.7.8";
const hostIP = "1.2.3.4";

/** Creates the mock provider. Its pods are Running at once and execute nothing. */
export async function createMockProvider(setup: ProviderSetup): Promise<PodProvider> {
  const { configPath, nodeName } = setup;
  const document: unknown =
    configPath === undefined ? {} : JSON.parse(await readFile(configPath, "utf8"));
  return new MockProvider(mockConfig(document, nodeName), setup);
}

class MockProvider implements PodProvider {
  readonly #config: MockConfig;
  readonly #setup: ProviderSetup;
  readonly #pods = new Map<string, Pod>();
  #callbacks: ProviderCallbacks | undefined;

  constructor(config: MockConfig, setup: ProviderSetup) {
    this.#config = config;
    this.#setup = setup;
  }

  async start(callbacks: ProviderCallbacks): Promise<void> {
    this.#callbacks = callbacks;
  }

  async apply({ pod }: { readonly pod: Pod }): Promise<void> {
    const uid = pod.metadata.uid;
    const isKnown = this.#pods.has(uid);
    this.#pods.set(uid, pod);
    if (!isKnown) this.#callbacks?.podStatus({ uid, status: this.#running(pod) });
  }

  async remove(pod: Pod): Promise<void> {
    const uid = pod.metadata.uid;
    if (!this.#pods.delete(uid))
      throw new VirtualKubeletError("VK_NOT_FOUND", `Cannot remove pod ${uid}: it is not known`);
    this.#callbacks?.podStatus({ uid, status: this.#removed(pod) });
  }

  async removeUnknown(uid: string): Promise<void> {
    this.#pods.delete(uid);
  }

  async presence(uid: string): Promise<"present" | "absent"> {
    return this.#pods.has(uid) ? "present" : "absent";
  }

  async list(): Promise<{ uid: string; namespace: string; name: string }[]> {
    return [...this.#pods].map(([uid, { metadata }]) => ({
      uid,
      namespace: metadata.namespace,
      name: metadata.name,
    }));
  }

  async nodeFacts(): Promise<NodeFacts> {
    const { cpu, memory, pods, others, providerID } = this.#config;
    return {
      capacity: { ...others, cpu, memory, pods },
      internalIp: this.#setup.internalIp,
      labels: {
        "alpha.service-controller.kubernetes.io/exclude-balancer": "true",
        "node.kubernetes.io/exclude-from-external-load-balancers": "true",
      },
      providerId: providerID,
    };
  }

  async ping(): Promise<void> {}

  async logs(): Promise<Readable> {
    return Readable.from([]);
  }

  async exec(): Promise<{ exitCode: number }> {
    return { exitCode: 0 };
  }

  async attach(): Promise<{ exitCode: number }> {
    return { exitCode: 0 };
  }

  async portForward(): Promise<void> {}

  async stats(): Promise<ProviderStats> {
    const timeMs = this.#setup.clock.now();
    const usage = { timeMs, cpuNanoseconds: 100e9, memoryBytes: 100, workingSetBytes: 100 };
    const pods = [...this.#pods].map(([uid, { spec, status }]) => ({
      uid,
      containers: (spec?.containers ?? []).map(({ name }) => ({
        name,
        startTimeMs: Date.parse(status?.startTime ?? "") || timeMs,
        ...usage,
      })),
    }));
    return { pods };
  }

  #running(pod: Pod): PodStatus {
    const now = wireTime(this.#setup.clock.now());
    const containerStatuses = (pod.spec.containers ?? []).map((container) =>
      containerStatus(container, { running: { startedAt: now } }, { ready: true }),
    );
    const initContainerStatuses = (pod.spec.initContainers ?? []).map((container) => {
      const terminated = { exitCode: 0, reason: "Completed", startedAt: now, finishedAt: now };
      return containerStatus(container, { terminated }, { ready: true });
    });
    const status = {
      phase: "Running",
      hostIP,
      podIP,
      podIPs: [{ ip: podIP }],
      startTime: now,
      containerStatuses,
      ...(initContainerStatuses.length > 0 && { initContainerStatuses }),
    };
    return { ...status, conditions: podConditions(pod, { ...status, now }) };
  }

  #removed(pod: Pod): PodStatus {
    const now = wireTime(this.#setup.clock.now());
    const containerStatuses = (pod.spec.containers ?? []).map((container) => {
      const reason = "MockProviderPodContainerDeleted";
      return containerStatus(container, { terminated: { exitCode: 0, reason, finishedAt: now } });
    });
    const status = { ...pod.status, phase: "Succeeded", containerStatuses };
    const conditions = podConditions(pod, { ...status, isReadyToStart: false, now });
    return { ...status, reason: "MockProviderPodDeleted", conditions };
  }
}
