import { defined } from "@kip/base";
import type { Node, NodeAddress, NodeCondition, NodeStatus } from "@kip/k8s-types";
import type { NodeFacts } from "../pod-provider.ts";

/** Facts about a node that do not change. */
export interface NodeIdentity {
  readonly nodeName: string;
  readonly os: string;
  readonly arch: string;
  readonly kubeletVersion: string;
  /** Port of the kubelet API. Absent if there is none. */
  readonly kubeletPort: number | undefined;
  /** Features of the kubelet API that not every kubelet has. */
  readonly features: readonly string[];
}

/** Why the node cannot accept pods. */
export interface NotReady {
  readonly reason: string;
  readonly message: string;
}

/** Labels of every virtual node. The provider's own labels take precedence. */
export function nodeLabels(identity: NodeIdentity): Readonly<Record<string, string>> {
  return {
    type: "virtual-kubelet",
    "kubernetes.io/role": "agent",
    "kubernetes.io/hostname": identity.nodeName,
    "kubernetes.io/os": identity.os,
    "kubernetes.io/arch": identity.arch,
    "beta.kubernetes.io/os": identity.os,
    "beta.kubernetes.io/arch": identity.arch,
  };
}

/** The labels of {@link nodeLabels} with which a node may create itself. NodeRestriction does not allow it to set a role. */
export function firstLabels(identity: NodeIdentity): Readonly<Record<string, string>> {
  const { "kubernetes.io/role": _role, ...labels } = nodeLabels(identity);
  return labels;
}

/** A node's status, as written by the node. */
export function nodeStatus(
  identity: NodeIdentity,
  facts: NodeFacts,
  conditions: readonly NodeCondition[],
  declaredFeatures: readonly string[],
): NodeStatus {
  const { kubeletPort } = identity;
  return defined({
    // Newer than the generated types.
    declaredFeatures: declaredFeatures.length > 0 ? [...declaredFeatures] : undefined,
    capacity: { ...facts.capacity },
    allocatable: { ...(facts.allocatable ?? facts.capacity) },
    features: facts.features,
    runtimeHandlers: facts.runtimeHandlers,
    conditions: [...conditions],
    addresses: nodeAddresses(identity, facts),
    daemonEndpoints:
      kubeletPort === undefined ? undefined : { kubeletEndpoint: { Port: kubeletPort } },
    nodeInfo: {
      machineID: "",
      systemUUID: "",
      bootID: "",
      kernelVersion: "",
      osImage: "",
      containerRuntimeVersion: "",
      kubeletVersion: identity.kubeletVersion,
      kubeProxyVersion: "",
      operatingSystem: identity.os,
      architecture: identity.arch,
      ...facts.nodeInfo,
    },
  });
}

/** A node's addresses. With two families there may be two of one type. */
export function nodeAddresses(identity: NodeIdentity, facts: NodeFacts): NodeAddress[] {
  const { internalIp, otherInternalIps = [] } = facts;
  return [
    ...[internalIp, ...otherInternalIps].map((address) => ({ type: "InternalIP", address })),
    { type: "Hostname", address: identity.nodeName },
  ];
}

type Verdict = Pick<NodeCondition, "type" | "status" | "reason" | "message">;

const healthy: readonly Verdict[] = [
  {
    type: "MemoryPressure",
    status: "False",
    reason: "KubeletHasSufficientMemory",
    message: "kubelet has sufficient memory available",
  },
  {
    type: "DiskPressure",
    status: "False",
    reason: "KubeletHasNoDiskPressure",
    message: "kubelet has no disk pressure",
  },
  {
    type: "PIDPressure",
    status: "False",
    reason: "KubeletHasSufficientPID",
    message: "kubelet has sufficient PID available",
  },
  {
    type: "NetworkUnavailable",
    status: "False",
    reason: "ProviderNetwork",
    message: "pods get their network from the provider",
  },
];

/**
 * The node's conditions. A condition keeps its transition time while its status does not change. Each has the time of this
 * heartbeat.
 *
 * @param known conditions in the API
 * @param now as `metav1.Time`
 */
export function nodeConditions(
  known: readonly NodeCondition[],
  notReady: NotReady | undefined,
  now: string,
): NodeCondition[] {
  const ready: Verdict = notReady
    ? { type: "Ready", status: "False", ...notReady }
    : {
        type: "Ready",
        status: "True",
        reason: "KubeletReady",
        message: "kubelet is posting ready status",
      };
  return [...healthy, ready].map((verdict) => {
    const before = known.find(({ type }) => type === verdict.type);
    const kept = before?.status === verdict.status ? before.lastTransitionTime : undefined;
    return { ...verdict, lastHeartbeatTime: now, lastTransitionTime: kept ?? now };
  });
}

/** Whether a node has all of the given taints. */
export function hasTaints(
  node: Node,
  taints: readonly { readonly key: string; readonly effect: string; readonly value?: string }[],
): boolean {
  const present = node.spec?.taints ?? [];
  return taints.every(({ key, effect, value }) =>
    present.some(
      (each) => each.key === key && each.effect === effect && (each.value ?? "") === (value ?? ""),
    ),
  );
}
