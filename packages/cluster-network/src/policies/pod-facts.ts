import type { Pod } from "@kip/k8s-types";
import { canonicalAddress, type Protocol } from "@kip/network-view";
import { protocolOf } from "../services/service-view-of.ts";
import type { Labels } from "@kip/k8s-client";

/** The properties of a pod that policies use. */
export interface PodFacts {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
  /** Empty if policies do not apply to the pod: it has its host's network, has no address yet, or has ended. */
  readonly addresses: readonly string[];
  readonly ports: readonly NamedPort[];
}

/** A port of a pod that policies can name. */
export interface NamedPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** Reads these properties from a pod. */
export function podFacts({ metadata, spec, status }: Pod): PodFacts {
  const isOutside =
    spec.hostNetwork === true || status?.phase === "Succeeded" || status?.phase === "Failed";
  const ips = status?.podIPs?.map(({ ip }) => ip) ?? [status?.podIP ?? ""];
  const sidecars = (spec.initContainers ?? []).filter((c) => c.restartPolicy === "Always");
  return {
    namespace: metadata.namespace,
    name: metadata.name,
    labels: metadata.labels ?? {},
    addresses: isOutside ? [] : ips.flatMap((ip) => canonicalAddress(ip ?? "") ?? []),
    ports: [...spec.containers, ...sidecars].flatMap(({ ports = [] }) =>
      ports.flatMap(({ name, protocol, containerPort }) =>
        name === undefined ? [] : [{ name, protocol: protocolOf(protocol), port: containerPort }],
      ),
    ),
  };
}
