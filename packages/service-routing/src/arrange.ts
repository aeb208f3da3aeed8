import type { ServicePortView, ServiceView } from "@kip/network-view";
import { families, ofFamily } from "./family.ts";
import { endpointCount, portOf } from "./service-change.ts";

/** Orders a new list so that entries of an earlier list keep their index if possible. Then only elements for other entries change. */
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
 * A Service with its endpoints ordered by {@link arrange}.
 *
 * @returns steps of one port each. A step yields the number of endpoints that it has read
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
        // Indexes count within an IP family, so arrange each family separately. Otherwise indexes of unchanged endpoints would shift.
        return families.flatMap((family) => arrange(ofFamily(was, family), ofFamily(list, family)));
      }),
    );
    yield 1 + endpointCount(old) + endpointCount(port);
  }
  return { ...next, ports };
}

/** A Service with its endpoints in the order that kip sends. */
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
