import type { DesiredContainer, DesiredPod } from "@kip/agent-api";
import { ownValue } from "@kip/base";
import { countedContainers, podRequest, type AmountsByName } from "./amounts.ts";

const guaranteed = -997;
const bestEffort = 1000;

/**
 * The score by which the kernel chooses a container to kill when the machine runs out of memory, from -997 to 1000, as computed
 * by a kubelet. The more memory a container of a burstable pod has requested, the later it is killed. A pod-level request
 * beyond those of the containers is divided equally among them.
 *
 * @param memoryBytes memory of the machine
 */
export function oomScoreAdj(
  pod: DesiredPod,
  container: DesiredContainer,
  { containers, memoryBytes }: { readonly containers: AmountsByName; readonly memoryBytes: number },
): number {
  if (pod.isNodeCritical === true || pod.qosClass === "Guaranteed") return guaranteed;
  if (pod.qosClass === "BestEffort") return bestEffort;
  const request = ({ name }: DesiredContainer): number =>
    ownValue(containers, name)?.memoryBytesRequest ?? 0;
  const share = sharedRequest(pod, containers);
  const score = (bytes: number): number =>
    1000 - Math.trunc((1000 * (bytes + share)) / memoryBytes);
  const own = score(request(container));
  // A sidecar is not killed before the containers that it serves.
  const isSidecar =
    container.restartPolicy === "Always" &&
    pod.initContainers.some(({ name }) => name === container.name);
  const least = Math.min(...pod.containers.map(request));
  const adjusted = isSidecar ? Math.min(own, score(least)) : own;
  if (adjusted < bestEffort + guaranteed) return bestEffort + guaranteed;
  return adjusted === bestEffort ? bestEffort - 1 : adjusted;
}

function sharedRequest(pod: DesiredPod, containers: AmountsByName): number {
  const ofPod = pod.resources?.memoryBytesRequest ?? 0;
  if (ofPod === 0) return 0;
  const { resources: _ofPod, overhead: _overhead, ...plain } = pod;
  const ofContainers = podRequest(plain, containers).memoryBytes;
  return Math.trunc((ofPod - ofContainers) / countedContainers(pod).length);
}
