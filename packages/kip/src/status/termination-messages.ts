import type { ContainerState } from "@kip/k8s-types";

/** A state with at most so many characters of its termination message. */
export function shortState(state: ContainerState, messageLength: number): ContainerState {
  const { terminated } = state;
  if (!terminated?.message) return state;
  const { message, ...rest } = terminated;
  const kept = message.slice(0, messageLength);
  return { terminated: kept === "" ? rest : { ...rest, message: kept } };
}
