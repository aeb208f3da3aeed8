import type { Service } from "@kip/k8s-types";
import { unresolved } from "../references/reference.ts";

/**
 * The variables that tell a container of the services around it: `default/kubernetes` always, those
 * of the pod's namespace unless the pod has `enableServiceLinks: false`. Headless services have none.
 *
 * @param services of all namespaces; the order does not matter
 * @see https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
 */
export function serviceVariables(
  services: readonly Service[],
  namespace: string,
  hasServiceLinks: boolean,
): ReadonlyMap<string, string> {
  const master = clusterServices(services, "default").filter(({ name }) => name === "kubernetes");
  const own = hasServiceLinks ? clusterServices(services, namespace) : [];
  // A service "kubernetes" of the pod's namespace comes second, and so overrides.
  const chosen = [...new Map([...master, ...own].map((each) => [each.name, each])).values()];
  const variables = chosen.reduce((sum, { ports }) => sum + variablesPerPort * ports.length, 0);
  if (variables > maxVariables)
    throw unresolved(
      `the ${chosen.length} services of the namespace have more than ${maxVariables} variables; set enableServiceLinks to false`,
    );
  return new Map(chosen.sort(byName).flatMap(variablesOf));
}

/** At least. */
const variablesPerPort = 4;

/**
 * The most that are made; each takes 45 bytes or more of a pod's document, which would be too large with as many. A Service may have
 * tens of thousands of ports, and each pod of its namespace would need hundreds of megabytes for a moment.
 */
const maxVariables = 200_000;

/** A service that has an address of the cluster. */
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

/** Pods of a namespace share the texts, which each of them keeps for life. */
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
