import { defined } from "@kip/base";
import type { DesiredHostPort } from "@kip/agent-api";
import { canonicalAddress, ipFamily } from "@kip/network-view";
import type { Container, Pod } from "@kip/k8s-types";

/** A host port of a pod. */
export interface PodHostPort {
  readonly protocol: "TCP" | "UDP" | "SCTP";
  readonly hostPort: number;
  readonly containerPort: number;
  /** Absent: all addresses. */
  readonly hostIp?: string | undefined;
}

/**
 * The host ports of a pod's containers and sidecars, as the kubelet counts them. With `hostNetwork` the API server makes each
 * declared port a host port.
 */
export function hostPortsOf(pod: Pod): readonly PodHostPort[] {
  return declaredPorts(pod).flatMap(hostPort);
}

function declaredPorts({ spec }: Pod): readonly Port[] {
  const sidecars = (spec.initContainers ?? []).filter(
    ({ restartPolicy }) => restartPolicy === "Always",
  );
  return [...sidecars, ...spec.containers].flatMap(({ ports = [] }) => ports);
}

/**
 * The host ports for the agent. There are none with host networking, where the containers listen themselves. Ports with an
 * invalid `hostIP` are left out: the API server accepts any text, and its author did not mean all addresses.
 *
 * @param addresses the cell's, at most one of each family, and the virtual node's
 */
export function desiredHostPorts(
  pod: Pod,
  addresses: { readonly cell: readonly string[]; readonly node: readonly string[] },
): readonly DesiredHostPort[] | undefined {
  if (pod.spec.hostNetwork === true) return undefined;
  const ofNode = new Set(addresses.node.map(canonicalAddress));
  const readable = declaredPorts(pod).filter(
    ({ hostIP = "" }) => hostIP === "" || canonicalAddress(hostIP) !== undefined,
  );
  const ports = readable.flatMap(hostPort).map((port) => {
    const { hostIp } = port;
    // No cell has the virtual node's addresses. They stand for those of the pod's host.
    if (hostIp === undefined || !ofNode.has(hostIp)) return defined(port);
    const own = addresses.cell.find((each) => ipFamily(each) === ipFamily(hostIp));
    return defined({ ...port, hostIp: own ?? hostIp });
  });
  return ports.length === 0 ? undefined : ports;
}

type Port = NonNullable<Container["ports"]>[number];

function hostPort(port: Port): readonly PodHostPort[] {
  const { protocol = "TCP", hostPort: number, containerPort, hostIP } = port;
  if (number === undefined || number === 0) return [];
  if (protocol !== "TCP" && protocol !== "UDP" && protocol !== "SCTP") return [];
  const hostIp = canonicalAddress(hostIP ?? "");
  const isAny = hostIp === undefined || hostIp === "0.0.0.0" || hostIp === "::";
  return [{ protocol, hostPort: number, containerPort, hostIp: isAny ? undefined : hostIp }];
}
