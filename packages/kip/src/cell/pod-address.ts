import type { CellMemory } from "./cell-memory.ts";

/** The address of a pod: its own, or its cell's with host networking; "" while there is none. */
export function podAddress(memory: CellMemory, hostNetwork: boolean): string {
  const { instance } = memory;
  return (hostNetwork ? instance?.managementIp : instance?.podIp) ?? instance?.managementIp ?? "";
}
