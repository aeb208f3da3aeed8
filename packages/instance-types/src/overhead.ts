const MiB = 2 ** 20;

/**
 * Memory for the kernel, the agent and the container tools on a cell, bytes. Measured with the cell image: the kernel keeps 48
 * MiB, and everything else takes 125 MiB while the agent is idle. The rest is for pulling images.
 */
const fixedBytes = 192 * MiB;

/**
 * Share of a cloud machine's memory that is not available to its kernel, or that describes memory. The kernel's page
 * descriptors take 1/64. Firmware and hypervisor keep the rest. Karpenter uses 7.5 % for this and the kernel together, for all
 * sizes.
 */
const share = 0.05;

/** The pod's part of a cloud machine's memory, bytes: all but 192 MiB and 5 %. Never negative. */
export function podMemoryBytes(machineBytes: number): number {
  return Math.max(0, Math.floor(machineBytes * (1 - share)) - fixedBytes);
}

/** The least memory of a cloud machine for a pod with this much memory, bytes. */
export function machineMemoryBytes(podBytes: number): number {
  return Math.ceil((podBytes + fixedBytes) / (1 - share));
}
