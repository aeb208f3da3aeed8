import { networkInterfaces } from "node:os";
import type { DesiredPod } from "@kip/agent-api";
import { errorText } from "@kip/base";
import type { PodPlace } from "../network/pod-rules.ts";
import { canonicalAddress } from "@kip/network-view";
import { present, type Executor } from "./step-tools.ts";

/** Puts the next change of the cluster's network in force. The rules are those of the pod's first document with a network. */
export const network: Executor<"network"> = async (_step, { state, signal }, tools) => {
  const { dependencies, events, network: cellNetwork } = tools;
  const { desired, isNetworkInForce: takesOver } = state();
  const place = placeOf(present(desired));
  const create = present(dependencies.createNetworkRules);
  try {
    await cellNetwork.applyNext(() => create(place, { takesOver }), signal);
  } catch (error) {
    if (!signal.aborted)
      events.warning("NetworkNotReady", `network is not ready: ${errorText(error)}`);
    throw error;
  }
  return { kind: "networkApplied" };
};

function placeOf({ hostNetwork, podIp, ipv6, network: settings }: DesiredPod): PodPlace {
  const isOwn = !hostNetwork && podIp !== undefined;
  return {
    ...present(settings),
    podAddresses: isOwn ? [podIp, ipv6?.podIp ?? []].flat() : [],
    machineAddresses: isOwn ? [] : machineAddresses(),
  };
}

function machineAddresses(): readonly string[] {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return all.flatMap(({ internal, address }) =>
    internal ? [] : (canonicalAddress(address) ?? []),
  );
}
