import { errorText, systemClock, type Logger } from "@kip/base";
import type { ControlPlane } from "@kip/control-plane";
import { createApiClient, loadKubeConfig, paths, type ApiClient } from "@kip/k8s-client";
import type { Node } from "@kip/k8s-types";

/** Resolves when the node is Ready, and pods get their service account. */
export async function nodeReady(
  controlPlane: ControlPlane,
  nodeName: string,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  await withClient(controlPlane, logger, async (client) => {
    await untilReady(async () => {
      const node = await client.get<Node>(paths.nodes(nodeName));
      await client.get(paths.serviceAccounts("default", "default"));
      const conditions = node.status?.conditions ?? [];
      return conditions.some(({ type, status }) => type === "Ready" && status === "True");
    }, signal);
  });
}

/** Runs `work` with a client of the cluster's administrator. */
export async function withClient(
  controlPlane: ControlPlane,
  logger: Logger,
  work: (client: ApiClient) => Promise<void>,
): Promise<void> {
  const config = await loadKubeConfig({ path: controlPlane.adminKubeconfig });
  const client = createApiClient(config, { userAgent: "kip-up", logger, clock: systemClock });
  try {
    await work(client);
  } finally {
    client.close();
  }
}

async function untilReady(check: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  for (;;) {
    const problem = await check().then(
      (isReady) => (isReady ? undefined : "the node is not ready"),
      (error: unknown) => errorText(error),
    );
    if (problem === undefined) return;
    signal.throwIfAborted();
    // Two objects, once, at the start of a try-out cluster: a watch on each would be more than this asks for.
    await systemClock.sleep(100, signal);
  }
}
