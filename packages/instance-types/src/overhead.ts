const MiB = 2 ** 20;

/**
 * Kernel, agent and container tools on a cell, bytes. Measured with the cell image: the kernel keeps 48 MiB, all else
 * takes 125 MiB while the agent is idle; the rest is room for a pull.
 */
const fixedBytes = 192 * MiB;

/**
 * Part of a cloud machine's memory that its kernel never has or describes memory with: 1/64 are the kernel's page
 * descriptors, the rest is kept by firmware and hypervisor. Karpenter takes 7.5 % for that and the kernel together, whatever the size.
 */
const share = 0.05;

/** What a pod gets of a cloud machine's memory, bytes: all but 192 MiB and 5 %. Never negative. */
export function podMemoryBytes(machineBytes: number): number {
  return Math.max(0, Math.floor(machineBytes * (1 - share)) - fixedBytes);
}

/** The least memory of a cloud machine whose pod gets this much, bytes. */
export function machineMemoryBytes(podBytes: number): number {
  return Math.ceil((podBytes + fixedBytes) / (1 - share));
}
