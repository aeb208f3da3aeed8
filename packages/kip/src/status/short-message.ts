import type { ContainerState } from "@kip/k8s-types";

/** A container state with its termination message cut to a maximum length, characters. */
export function withShortMessage(state: ContainerState, messageLength: number): ContainerState {
  const { terminated } = state;
  if (!terminated?.message) return state;
  const { message, ...rest } = terminated;
  const kept = message.slice(0, messageLength);
  return { terminated: kept === "" ? rest : { ...rest, message: kept } };
}
