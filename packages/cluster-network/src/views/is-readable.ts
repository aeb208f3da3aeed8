import { decodeLine } from "@kip/network-view";

/** Whether a cell takes a line. One that it refuses ends its connection, and any user of the cluster may have caused it. */
export function isReadable(line: string): boolean {
  try {
    decodeLine(line.trimEnd());
    return true;
  } catch {
    return false;
  }
}
