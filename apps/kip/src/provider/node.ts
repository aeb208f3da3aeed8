import { createSecureContext } from "node:tls";
import { isSystemError, OptionError, systemClock, type Logger, type OptionValues } from "@kip/base";
import type { ApiClient, KubeConfig } from "@kip/k8s-client";
import type { KeyPair } from "@kip/pki";
import {
  delegatedAccess,
  startNode,
  type KubeletApiOptions,
  type NodeOptions,
  type PodProvider,
  type RunningNode,
} from "@kip/virtual-kubelet";
import {
  certificatePair,
  clientCaOf,
  duration,
  metricsAddress,
  NodeMetrics,
  nodeTimes,
  readOptionFile,
  ServingTls,
  startMetrics,
  taintsOf,
  waitForStart,
  type Tracer,
} from "@kip/virtual-kubelet/command";

/** Options of {@link serveNode}. */
export interface ServeNodeOptions {
  readonly provider: PodProvider;
  readonly client: ApiClient;
  /** Acts as the virtual node. Undefined if kip uses its own permissions. */
  readonly nodeClient: ApiClient | undefined;
  /** The address of the API server. */
  readonly cluster: KubeConfig;
  readonly nodeName: string;
  readonly nodeIp: string;
  readonly tracer: Tracer;
  readonly options: OptionValues;
  readonly logger: Logger;
  /** Cancels the start. */
  readonly signal: AbortSignal;
}

/** A node with its metrics. */
export interface ServedNode extends AsyncDisposable {
  readonly kubeletPort: number | undefined;
}

/** Registers the virtual node, and serves its kubelet API and its metrics. */
export async function serveNode(needs: ServeNodeOptions): Promise<ServedNode> {
  const { options, signal } = needs;
  await using starting = new AsyncDisposableStack();
  const metrics = new NodeMetrics();
  await startMetrics(options, metrics, starting);
  const settings = { ...(await nodeSettings(needs)), metrics, tracer: needs.tracer };
  const { limitMs } = nodeFlags(options);
  const start = async (ending: AbortSignal): Promise<RunningNode> =>
    await startNode({ ...settings, signal: ending });
  const node = starting.use(await waitForStart(limitMs, signal, start));
  const stack = starting.move();
  return {
    kubeletPort: node.kubeletPort,
    [Symbol.asyncDispose]: async () => await stack.disposeAsync(),
  };
}

/**
 * Parses the node's flags. Also call this at the start of the process. Otherwise a replica that waits for its turn, and is
 * ready meanwhile, would only find a mistake when the other replica is gone.
 *
 * @throws {OptionError} `OPTION_INVALID`
 */
export function nodeFlags(options: OptionValues) {
  return {
    ...nodeTimes(options),
    taints: taintsOf(options, "kip"),
    limitMs: duration("startup-timeout", options.required("startup-timeout")),
    port: options.integer("kubelet-port", { min: 1, max: 65_535 }),
    access: options.choice("kubelet-access", ["cluster", "certificate"]),
    metrics: metricsAddress(options),
    rotates: options.isSet("rotate-server-certificates"),
  };
}

/**
 * Reads the files that the node's flags name, for the same reason as {@link nodeFlags}.
 *
 * @throws {OptionError} `OPTION_INVALID` for one that cannot be read, and for a certificate that does not belong to its key
 */
export async function checkNodeFiles(options: OptionValues): Promise<void> {
  if (options.text("client-ca-file") !== undefined) await readOptionFile(options, "client-ca-file");
  const pair = await givenPair(options);
  if (!pair) return;
  try {
    createSecureContext({ cert: pair.certificate, key: pair.key });
  } catch (cause) {
    const problem = "Cannot use --tls-cert-file with --tls-private-key-file";
    throw new OptionError("OPTION_INVALID", problem, { cause });
  }
}

async function nodeSettings(needs: ServeNodeOptions): Promise<NodeOptions> {
  const { provider, client, nodeClient, cluster, nodeName, nodeIp, options, logger } = needs;
  const { streams, intervals, taints, port, rotates } = nodeFlags(options);
  const tls = new ServingTls({
    pair: async () => await givenPair(options),
    clientCa: async () => await clientCaOf(options, cluster),
    nodeName,
    ipAddress: nodeIp,
    clock: systemClock,
  });
  return {
    client,
    nodeClient,
    nodeName,
    provider,
    providerName: "kip",
    taints,
    intervals,
    kubelet: {
      host: nodeIp,
      port,
      ...(await tls.read()),
      ...kubeletAccess(needs),
      ...streams,
    },
    requestCertificate: rotates && tls.isSelfSigned,
    certificateSigner: options.text("certificate-signer"),
    reloadTls: async () => await tls.read(),
    clock: systemClock,
    logger: logger.with({ node: nodeName }),
  };
}

/**
 * Access rules of the kubelet API: either the cluster's RBAC decides, or all clients with a certificate of the authority have
 * access.
 */
function kubeletAccess(
  needs: ServeNodeOptions,
): Pick<KubeletApiOptions, "authenticate" | "authorize"> {
  const { client, nodeName, options } = needs;
  if (nodeFlags(options).access === "certificate") return {};
  return delegatedAccess({ client, nodeName, clock: systemClock });
}

/** The configured serving certificate. If its file does not exist, a self-signed one is created, as in the original. */
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
