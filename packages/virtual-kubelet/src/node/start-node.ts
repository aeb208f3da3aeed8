import type { NodeOptions, RunningNode } from "./node-options.ts";

/**
 * Registers a node and runs the pods bound to it with a provider. Resolves when the node is
 * registered and its pods are known.
 */
export function startNode(options: NodeOptions): Promise<RunningNode> {
  void options;
  throw new Error("Not built yet");
}
