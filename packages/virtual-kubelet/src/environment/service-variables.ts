import type { Service } from "@kip/k8s-types";

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
  const chosen = new Map([...master, ...own].map((service) => [service.name, service]));
  return new Map([...chosen.values()].sort(byName).flatMap(variablesOf));
}

/** A service that has an address of the cluster. */
interface ClusterService {
  readonly name: string;
  readonly ip: string;
  readonly ports: NonNullable<NonNullable<Service["spec"]>["ports"]>;
}

function clusterServices(
  services: readonly Service[],
  namespace: string,
): readonly ClusterService[] {
  return services.flatMap(({ metadata, spec }) => {
    const { clusterIP: ip = "", ports = [] } = spec ?? {};
    const hasAddress = ip !== "" && ip !== "None";
    return metadata.namespace === namespace && hasAddress
      ? [{ name: metadata.name, ip, ports }]
      : [];
  });
}

function byName(a: ClusterService, b: ClusterService): number {
  return a.name < b.name ? -1 : 1;
}

function variablesOf({ name, ip, ports }: ClusterService): [string, string][] {
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
