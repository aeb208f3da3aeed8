import { defined } from "@kip/base";
import type { DesiredHostPort } from "@kip/agent-api";
import { canonicalAddress, ipFamily } from "@kip/network-view";
import type { Container, Pod } from "@kip/k8s-types";

/** A port that a pod has of the node's. */
export interface PodHostPort {
  readonly protocol: "TCP" | "UDP" | "SCTP";
  readonly hostPort: number;
  readonly containerPort: number;
  /** Absent: all addresses. */
  readonly hostIp?: string | undefined;
}

/**
 * The host ports of a pod's containers and sidecars, as the kubelet counts them. With `hostNetwork` the API server makes each
 * declared port one.
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
 * What the agent gets: none with the cell's own network, where the containers listen themselves, and none whose `hostIP` is not a valid
 * address: the API server takes any text, and who wrote it did not mean all addresses.
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
    // No cell has the virtual node's addresses: those of the pod's host are meant.
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
