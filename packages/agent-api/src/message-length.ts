/** All termination messages of a pod together, characters; as much as the kubelet keeps. */
const maxMessages = 12 * 1024;

/** The part of one container, characters, in a pod with so many of all kinds. */
export function maxMessageLength(containers: number): number {
  return Math.floor(maxMessages / Math.max(1, containers));
}
