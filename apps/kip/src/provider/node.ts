import { readFile } from "node:fs/promises";
import { hasCode, systemClock, type Logger, OptionError } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import type { KeyPair } from "@kip/pki";
import {
  delegatedAccess,
  startNode,
  type KubeletApiOptions,
  type PodProvider,
  type RunningNode,
} from "@kip/virtual-kubelet";
import { ServingTls } from "@kip/virtual-kubelet/command";
import type { OptionValues } from "@kip/base";

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
    clientCa: async () => await readRequired(options, "client-ca-file"),
    nodeName,
    ipAddress: nodeIp,
    clock: systemClock,
  });
  return await startNode({
    client,
    nodeName,
    provider,
    providerName: "kip",
    ...(options.isSet("disable-taint") && { taints: [] }),
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
  const access = options.required("kubelet-access");
  if (access === "certificate") return {};
  if (access === "cluster") return delegatedAccess({ client, nodeName, clock: systemClock });
  throw new OptionError("OPTION_INVALID", `Cannot use --kubelet-access ${access}`, {
    remedy: "Give cluster or certificate",
  });
}

/** The serving certificate that was given. Without its file a self-signed one is made, as in the original. */
async function givenPair(options: OptionValues): Promise<KeyPair | undefined> {
  const certificateFile = options.text("tls-cert-file");
  const keyFile = options.text("tls-private-key-file");
  if (certificateFile !== undefined && keyFile !== undefined) {
    try {
      const [certificate, key] = await Promise.all([
        readFile(certificateFile, "utf8"),
        readFile(keyFile, "utf8"),
      ]);
      return { certificate, key };
    } catch (error) {
      if (!hasCode(error, "ENOENT")) throw error;
    }
  }
  return undefined;
}

async function readRequired(options: OptionValues, flag: string): Promise<string> {
  const file = options.required(flag);
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new OptionError("OPTION_INVALID", `Cannot read --${flag} ${file}`, { cause: error });
  }
}
