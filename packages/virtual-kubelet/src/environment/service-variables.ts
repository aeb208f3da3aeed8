import type { Service } from "@kip/k8s-types";
import { unresolved } from "../references/reference.ts";

/**
 * The service variables of a container: always those of `default/kubernetes`, and those of the pod's namespace unless the pod
 * has `enableServiceLinks: false`. Headless services have none.
 *
 * @param services services of all namespaces, in any order
 * @see https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
 */
export function serviceVariables(
  services: readonly Service[],
  namespace: string,
  hasServiceLinks: boolean,
): ReadonlyMap<string, string> {
  const master = clusterServices(services, "default").filter(({ name }) => name === "kubernetes");
  const own = hasServiceLinks ? clusterServices(services, namespace) : [];
  // A service "kubernetes" in the pod's namespace comes second, so it overrides the other one.
  const chosen = [...new Map([...master, ...own].map((each) => [each.name, each])).values()];
  const variables = chosen.reduce((sum, { ports }) => sum + variablesPerPort * ports.length, 0);
  if (variables > maxVariables)
    throw unresolved(
      `the ${chosen.length} services of the namespace have more than ${maxVariables} variables; set enableServiceLinks to false`,
    );
  return new Map(chosen.sort(byName).flatMap(variablesOf));
}

/** Minimum number of variables per port. */
const variablesPerPort = 4;

/**
 * Most variables of a pod. Each takes at least 45 bytes of a pod's document, which would be too large with this many. A Service
 * may have tens of thousands of ports, and without a limit each pod of its namespace would temporarily need hundreds of
 * megabytes.
 */
const maxVariables = 200_000;

/** A service with a cluster IP. */
interface ClusterService {
  readonly service: Service;
  readonly name: string;
  readonly ip: string;
  readonly ports: NonNullable<NonNullable<Service["spec"]>["ports"]>;
}

function clusterServices(
  services: readonly Service[],
  namespace: string,
): readonly ClusterService[] {
  return services.flatMap((service) => {
    const { metadata, spec } = service;
    const { clusterIP: ip = "", ports = [] } = spec ?? {};
    const hasAddress = ip !== "" && ip !== "None";
    return metadata.namespace === namespace && hasAddress
      ? [{ service, name: metadata.name, ip, ports }]
      : [];
  });
}

function byName(a: ClusterService, b: ClusterService): number {
  return a.name < b.name ? -1 : 1;
}

/** Pods of a namespace share the texts, because each keeps them for its lifetime. */
const known = new WeakMap<Service, readonly (readonly [string, string])[]>();

function variablesOf(one: ClusterService): readonly (readonly [string, string])[] {
  const variables = known.get(one.service) ?? makeVariables(one);
  known.set(one.service, variables);
  return variables;
}

function makeVariables({ name, ip, ports }: ClusterService): [string, string][] {
  const prefix = envName(name);
  const [first] = ports;
  if (!first) return [[`${prefix}_SERVICE_HOST`, ip]];
  const urlHost = ip.includes(":") ? `[${ip}]` : ip;
  const url = (port: (typeof ports)[number]): string =>
    `${protocolOf(port).toLowerCase()}://${urlHost}:${port.port}`;
  return [
    [`${prefix}_SERVICE_HOST`, ip],
    [`${prefix}_SERVICE_PORT`, String(first.port)],
    ...ports.flatMap(({ name: portName, port }): [string, string][] =>
      portName === undefined || portName === ""
        ? []
        : [[`${prefix}_SERVICE_PORT_${envName(portName)}`, String(port)]],
    ),
    [`${prefix}_PORT`, url(first)],
    ...ports.flatMap((port): [string, string][] => {
      const portPrefix = `${prefix}_PORT_${port.port}_${protocolOf(port).toUpperCase()}`;
      return [
        [portPrefix, url(port)],
        [`${portPrefix}_PROTO`, protocolOf(port).toLowerCase()],
        [`${portPrefix}_PORT`, String(port.port)],
        [`${portPrefix}_ADDR`, ip],
      ];
    }),
  ];
}

function protocolOf(port: { readonly protocol?: string }): string {
  return port.protocol === undefined || port.protocol === "" ? "TCP" : port.protocol;
}

function envName(name: string): string {
  return name.toUpperCase().replaceAll("-", "_");
}
