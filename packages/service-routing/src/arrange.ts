import type { ServicePortView, ServiceView } from "@kip/network-view";
import { families, ofFamily } from "./family.ts";
import { endpointCount, portOf } from "./service-change.ts";

/**
 * Puts a new list into an order that keeps what it shares with an earlier one in its place, so that only the differences
 * are elements to change.
 */
export function arrange(before: readonly string[], next: readonly string[]): readonly string[] {
  const rest = new Set(next);
  const result: (string | undefined)[] = Array.from({ length: next.length }, (_, index) => {
    const entry = before[index];
    return entry !== undefined && rest.delete(entry) ? entry : undefined;
  });
  const others = rest.values();
  return result.map((entry) => entry ?? others.next().value ?? "");
}

/**
 * A Service with its endpoints in an order that keeps those of before in their places.
 *
 * @returns steps of one port each, which give how many endpoints they have looked at
 */
export function* arranged(
  before: ServiceView | undefined,
  next: ServiceView,
): Generator<number, ServiceView> {
  if (!before) return next;
  const ports: ServicePortView[] = [];
  for (const port of next.ports) {
    const old = portOf(before, port);
    ports.push(
      withEndpoints(port, (list, field) => {
        const was = old?.[field] ?? [];
        // Each family has places of its own: an endpoint in a gap of the other one would move all behind it.
        return families.flatMap((family) => arrange(ofFamily(was, family), ofFamily(list, family)));
      }),
    );
    yield 1 + endpointCount(old) + endpointCount(port);
  }
  return { ...next, ports };
}

/** A Service with its endpoints in the order of kip's lines. */
export function withSortedEndpoints(view: ServiceView): ServiceView {
  const ports = view.ports.map((port) => withEndpoints(port, (list) => [...list].sort()));
  return { ...view, ports };
}

function withEndpoints(
  port: ServicePortView,
  change: (list: readonly string[], field: "endpoints" | "localEndpoints") => readonly string[],
): ServicePortView {
  const { endpoints, localEndpoints } = port;
  return {
    ...port,
    endpoints: change(endpoints, "endpoints"),
    ...(localEndpoints && { localEndpoints: change(localEndpoints, "localEndpoints") }),
  };
}
