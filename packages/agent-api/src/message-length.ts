/** Maximum total length of a pod's termination messages, characters. The kubelet's limit. */
const maxMessages = 12 * 1024;

/** Maximum length for one container, characters. @param containers number of the pod's containers, of all kinds */
export function maxMessageLength(containers: number): number {
  return Math.floor(maxMessages / Math.max(1, containers));
}
