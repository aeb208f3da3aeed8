import { decodeLine, encodeLine, limits, type ServiceView } from "@kip/network-view";
import { endpointLists, withoutEndpoints } from "../services/service-cost.ts";

/** Whether a cell takes a line. One that it refuses ends its connection, and any user of the cluster may have caused it. */
export function isReadable(line: string): boolean {
  try {
    decodeLine(line.trimEnd());
    return true;
  } catch {
    return false;
  }
}

/**
 * The same for a Service. Its endpoints are not read again: kip has written them itself, each from an address and a port, and
 * reading 36,000 takes longer than all else that is done for the Service.
 *
 * @param line of the view
 */
export function isReadableService(line: string, key: string, view: ServiceView): boolean {
  return (
    Buffer.byteLength(line) <= limits.lineBytes &&
    view.ports.flatMap(endpointLists).every((list) => list.length <= limits.endpoints) &&
    isReadable(encodeLine({ kind: "service", key, view: withoutEndpoints(view) }))
  );
}
