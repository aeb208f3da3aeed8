import { backoffDelay, type Clock, type Logger } from "@kip/base";
import type { ServiceSource } from "@kip/cloud";
import { ChangeReader, type ViewChange } from "@kip/network-view";
import { forgetFlows, NetworkRules } from "@kip/service-routing";
import type { LocalNetwork } from "./local-network.ts";
import { NodePorts } from "./node-ports.ts";
import { changesIn } from "./changes-in.ts";

/** What {@link leadHostServices} needs. */
export interface HostServicesOptions {
  readonly network: LocalNetwork;
  /** See `LocalCloudOptions`. */
  readonly nodePortAddresses: readonly string[];
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Delays before rules are written again that were refused, milliseconds. */
const backoff = { initialMs: 1000, maxMs: 60_000 } as const;

/**
 * Keeps the rules of the namespace up to date that lead the host's packets to endpoints, until the signal aborts. They stay
 * in force afterwards, and go with the namespace. Never throws.
 *
 * Machines have rules of their own; what they send to a Service's address here is refused by the namespace's filter.
 */
export async function leadHostServices(
  source: ServiceSource,
  options: HostServicesOptions,
  signal: AbortSignal,
): Promise<void> {
  const { network, clock, logger } = options;
  const { namespace, plan } = network;
  const rules = new NetworkRules({
    place: {
      podAddresses: [],
      nodeAddresses: [],
      clients: [plan.host, plan.ipv6?.host ?? []].flat(),
      serviceRanges: [],
      // Where br_netfilter was loaded later, what the bridge carries passes these rules, too.
      machinePorts: network.managementPorts,
      machineRanges: [plan.machines, plan.ipv6?.machines ?? []].flat(),
    },
    runNft: async (text) => (await namespace.run("nft", ["-f", "-"], text)).stdout,
    forget: async (flows) => {
      await forgetFlows(flows, { inNamespace: ["nsenter", `--net=${namespace.file}`] });
    },
    logger,
    clock,
    signal,
    takesOver: true, // of a kip that was here before
  });
  // Rules answer for them at this address of the namespace.
  await using nodePorts = new NodePorts({
    addresses: nodePortAddresses(options),
    target: plan.gateway,
    clock,
    logger,
  });
  using subscription = source.subscribe(rules.sums);
  const reader = new ChangeReader();
  try {
    for (;;) {
      for await (const change of changesIn(await subscription.next(signal), reader)) {
        await apply(rules, change);
        await nodePorts.apply(change);
      }
    }
  } catch (err) {
    if (!signal.aborted) logger.error("Could not read the cluster's Services", { err });
  }

  async function apply(to: NetworkRules, change: ViewChange): Promise<void> {
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        return await to.apply(change);
      } catch (err) {
        logger.warn("Could not lead the host's packets to Services", { err });
        await clock.sleep(backoffDelay(attempt, backoff), signal);
      }
    }
  }
}

/** None if none is wanted; one of its kind if it stands for all. */
function nodePortAddresses({
  nodePortAddresses: wanted,
  network,
}: HostServicesOptions): readonly string[] {
  if (wanted.length === 0) return [];
  if (wanted.includes("0.0.0.0")) return ["0.0.0.0"];
  return [...new Set([network.plan.host, ...wanted])];
}
