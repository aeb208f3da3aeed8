import { backoffDelay, type Clock, type Logger } from "@kip/base";
import type { ServiceSource } from "@kip/cloud";
import { ChangeReader, type ViewChange } from "@kip/network-view";
import { forgetFlows, NetworkRules } from "@kip/service-routing";
import type { LocalNetwork } from "./local-network.ts";
import { NodePorts } from "./node-ports.ts";
import { changesIn } from "./changes-in.ts";

/** Options of {@link routeHostServices}. */
export interface HostServicesOptions {
  readonly network: LocalNetwork;
  /** See `LocalCloudOptions`. */
  readonly nodePortAddresses: readonly string[];
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Delays before refused rules are written again, milliseconds. */
const backoff = { initialMs: 1000, maxMs: 60_000 } as const;

/**
 * Keeps the namespace's rules for the host's packets to Services up to date, until the signal aborts. The rules stay in force
 * afterwards, and end with the namespace. Never throws.
 *
 * Machines have rules of their own. The namespace's filter refuses their packets to a Service's address.
 */
export async function routeHostServices(
  source: ServiceSource,
  options: HostServicesOptions,
  signal: AbortSignal,
): Promise<void> {
  const { network, clock, logger } = options;
  const rules = hostRules(options, signal);
  await using nodePorts = new NodePorts({
    addresses: nodePortAddresses(options),
    target: network.plan.gateway,
    targetOfOthers: network.plan.relay,
    clock,
    logger,
  });
  using subscription = source.subscribe(rules.sums);
  const reader = new ChangeReader();
  try {
    for (;;) {
      for await (const change of changesIn(await subscription.next(signal), reader)) {
        await applyRules(rules, change);
        await nodePorts.apply(change);
      }
    }
  } catch (err) {
    if (!signal.aborted) logger.error("Could not read the cluster's Services", { err });
  }

  async function applyRules(to: NetworkRules, change: ViewChange): Promise<void> {
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        return await to.apply(change);
      } catch (err) {
        logger.warn("Could not route the host's packets to Services", { err });
        await clock.sleep(backoffDelay(attempt, backoff), signal);
      }
    }
  }
}

/** The rules of the network namespace for the host. They replace those of an earlier kip. */
function hostRules(
  { network, clock, logger }: HostServicesOptions,
  signal: AbortSignal,
): NetworkRules {
  const { namespace, plan } = network;
  return new NetworkRules({
    place: {
      podAddresses: [],
      nodeAddresses: [],
      clients: [plan.host, plan.ipv6?.host ?? []].flat(),
      serviceRanges: [],
      // If br_netfilter is loaded later, packets that the bridge carries also pass these rules.
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
    takesOver: true,
  });
}

/** Addresses for relaying NodePorts to the namespace. Just 0.0.0.0 if that is among them. */
function nodePortAddresses({
  nodePortAddresses: wanted,
  network,
}: HostServicesOptions): readonly string[] {
  if (wanted.length === 0) return [];
  if (wanted.includes("0.0.0.0")) return ["0.0.0.0"];
  return [...new Set([network.plan.host, ...wanted])];
}
