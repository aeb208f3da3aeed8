import { errorText, systemClock, type Logger } from "@kip/base";
import type { ControlPlane } from "@kip/control-plane";
import { createApiClient, loadKubeConfig, paths, type ApiClient } from "@kip/k8s-client";
import type { Node } from "@kip/k8s-types";

/** Resolves when the node is Ready and the service account for pods exists. */
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

/** Runs `work` with an API client that has the administrator's permissions. */
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
    // Poll: this checks two objects once, when a try-out cluster starts. Watches would be more than that needs.
    await systemClock.sleep(100, signal);
  }
}
