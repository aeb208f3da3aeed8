import type { GpuModel } from "../offered-instance-type.ts";

const GiB = 2 ** 30;

/**
 * Whether a GPU is of a kind as node selectors of various systems name it: `nvidia-tesla-t4` (GKE), `t4` (Karpenter),
 * `nvidia-a100-80gb` with the memory of each, or the cloud's own name. Ignores case.
 */
export function isGpuKind(kind: string, gpu: GpuModel): boolean {
  const wanted = kind.toLowerCase();
  if (wanted === gpu.acceleratorType) return true;
  const ofMaker = wanted.startsWith(`${gpu.manufacturer}-`);
  const short = (ofMaker ? wanted.slice(gpu.manufacturer.length + 1) : wanted).replace(
    /^tesla-/,
    "",
  );
  return short === gpu.name || short === `${gpu.name}-${Math.round(gpu.memoryBytes / GiB)}gb`;
}
