import type { ContainerState } from "@kip/k8s-types";

/** All termination messages of a pod together, characters; as much as the kubelet keeps. */
const maxMessages = 12 * 1024;

/** The part of one container, characters, in a pod with so many of all kinds. */
export function maxMessageLength(containers: number): number {
  return Math.floor(maxMessages / Math.max(1, containers));
}

/** A state with at most so many characters of its termination message. */
export function shortState(state: ContainerState, messageLength: number): ContainerState {
  const { terminated } = state;
  if (!terminated?.message) return state;
  const { message, ...rest } = terminated;
  const kept = message.slice(0, messageLength);
  return { terminated: kept === "" ? rest : { ...rest, message: kept } };
}
