import type { ServicePortView, ServiceView } from "@kip/network-view";

/**
 * A Service as text, which takes a third of the memory of objects. The first line is the Service without endpoints. Each other line contains the
 * endpoints of one port. So addresses and ports can be read without thousands of endpoints.
 */
export function textOfView(view: ServiceView): string {
  const lists = view.ports.map((port) => JSON.stringify(listsOf(port)));
  const ports = view.ports.map(({ name, protocol, port, nodePort }) => ({
    name,
    protocol,
    port,
    nodePort,
    endpoints: [],
  }));
  return [JSON.stringify({ ...view, ports }), ...lists].join("\n");
}

/** Parses a text of {@link textOfView}. */
export function viewOfText(text: string): ServiceView {
  const [, ...lines] = text.split("\n");
  const head = headOfText(text);
  const ports = head.ports.map((port, index) => {
    const lists = JSON.parse(lines[index] ?? "{}") as ReturnType<typeof listsOf>; // written above
    return { ...port, ...lists };
  });
  return { ...head, ports };
}

/** Parses a text of {@link textOfView} without the endpoints. */
export function headOfText(text: string): ServiceView {
  const end = text.indexOf("\n");
  return JSON.parse(end < 0 ? text : text.slice(0, end)) as ServiceView; // written above
}

function listsOf({
  endpoints,
  localEndpoints,
  servingEndpoints,
}: ServicePortView): Pick<ServicePortView, "endpoints" | "localEndpoints" | "servingEndpoints"> {
  return { endpoints, localEndpoints, servingEndpoints };
}
