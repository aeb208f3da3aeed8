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
  const isIn = (wanted: string) => (service: Service) =>
    service.metadata.namespace === wanted && hasAddress(service);
  const master = services
    .filter(isIn("default"))
    .filter((service) => service.metadata.name === "kubernetes");
  const own = hasServiceLinks ? services.filter(isIn(namespace)) : [];
  // A service "kubernetes" of the pod's namespace comes second, and so overrides.
  const chosen = new Map([...master, ...own].map((service) => [service.metadata.name, service]));
  const names = [...chosen.keys()].sort();
  return new Map(names.flatMap((name) => variablesOf(name, chosen.get(name))));
}

function hasAddress({ spec }: Service): boolean {
  return spec?.clusterIP !== undefined && spec.clusterIP !== "" && spec.clusterIP !== "None";
}

function variablesOf(name: string, service: Service | undefined): [string, string][] {
  const prefix = envName(name);
  const ip = service?.spec?.clusterIP ?? "";
  const ports = service?.spec?.ports ?? [];
  const [first] = ports;
  if (!first) return [[`${prefix}_SERVICE_HOST`, ip]];
  const urlHost = ip.includes(":") ? `[${ip}]` : ip;
  const url = (port: (typeof ports)[number]): string =>
    `${protocolOf(port).toLowerCase()}://${urlHost}:${port.port}`;
  return [
    [`${prefix}_SERVICE_HOST`, ip],
    [`${prefix}_SERVICE_PORT`, String(first.port)],
    ...ports
      .filter((port) => port.name !== undefined && port.name !== "")
      .map((port): [string, string] => [
        `${prefix}_SERVICE_PORT_${envName(port.name ?? "")}`,
        String(port.port),
      ]),
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
