import { AgentError, type DesiredPod } from "@kip/agent-api";
import { parseQuantity } from "@kip/base";

/** Whether an emptyDir with this medium uses huge pages. */
export function isHugePages(medium: string): boolean {
  return medium.startsWith("HugePages");
}

/**
 * The page size of an emptyDir, bytes, by the kubelet's rules: the medium's, or the only one of the pod.
 *
 * @throws {AgentError} code `AGENT_VOLUME_INVALID`, in the kubelet's words
 */
export function pageBytesOf(
  medium: string,
  { hugePages = [] }: Pick<DesiredPod, "hugePages">,
): number {
  const [, size] = medium.split("-");
  const wanted = size === undefined ? undefined : parseQuantity(size);
  const sizes = hugePages.map(({ pageBytes }) => pageBytes);
  const [first, ...others] = sizes.filter((each) => wanted === undefined || each === wanted);
  if (first === undefined)
    throw new AgentError(
      "AGENT_VOLUME_INVALID",
      `medium ${medium}: hugePages storage requested, but there is no resource request for huge pages`,
    );
  if (others.length > 0)
    throw new AgentError(
      "AGENT_VOLUME_INVALID",
      `medium: ${medium} can't be used if container requests multiple huge page sizes`,
    );
  return first;
}
