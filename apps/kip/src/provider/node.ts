import { isSystemError, OptionError, systemClock, type Logger, type OptionValues } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import type { KeyPair } from "@kip/pki";
import {
  delegatedAccess,
  startNode,
  type KubeletApiOptions,
  type PodProvider,
  type RunningNode,
} from "@kip/virtual-kubelet";
import { certificatePair, readOptionFile, ServingTls } from "@kip/virtual-kubelet/command";

/** What {@link serveNode} needs. */
export interface ServeNodeOptions {
  readonly provider: PodProvider;
  readonly client: ApiClient;
  readonly nodeName: string;
  readonly nodeIp: string;
  readonly options: OptionValues;
  readonly logger: Logger;
}

/** Registers the virtual node and serves its kubelet API. */
export async function serveNode(needs: ServeNodeOptions): Promise<RunningNode> {
  const { provider, client, nodeName, nodeIp, options, logger } = needs;
  const tls = new ServingTls({
    pair: async () => await givenPair(options),
    clientCa: async () => await readOptionFile(options, "client-ca-file"),
    nodeName,
    ipAddress: nodeIp,
    clock: systemClock,
  });
  return await startNode({
    client,
    nodeName,
    provider,
    providerName: "kip",
    taints: options.isSet("disable-taint") ? [] : undefined,
    kubelet: {
      host: nodeIp,
      port: options.integer("kubelet-port", { min: 1, max: 65_535 }),
      ...(await tls.read()),
      ...kubeletAccess(needs),
    },
    reloadTls: async () => await tls.read(),
    clock: systemClock,
    logger: logger.with({ node: nodeName }),
  });
}

/** Clients of the kubelet API: those that the cluster's RBAC allows, or all that have a certificate of the authority. */
function kubeletAccess(
  needs: ServeNodeOptions,
): Pick<KubeletApiOptions, "authenticate" | "authorize"> {
  const { client, nodeName, options } = needs;
  const access = options.choice("kubelet-access", ["cluster", "certificate"]);
  if (access === "certificate") return {};
  return delegatedAccess({ client, nodeName, clock: systemClock });
}

/** The serving certificate that was given. Without its file a self-signed one is made, as in the original. */
async function givenPair(options: OptionValues): Promise<KeyPair | undefined> {
  for (const flag of ["tls-cert-file", "tls-private-key-file"])
    if (options.text(flag) === undefined) return undefined;
  try {
    return await certificatePair(options);
  } catch (error) {
    if (OptionError.is(error) && isSystemError(error.cause, "ENOENT")) return undefined;
    throw error;
  }
}
