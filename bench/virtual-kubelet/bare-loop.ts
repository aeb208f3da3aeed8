import { silentLogger, systemClock } from "@kip/base";
import {
  isNotFound,
  createInformer,
  createLeaseHolder,
  paths,
  requestToken,
  wireTime,
  type ApiClient,
} from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";

/**
 * The lower bound: only the calls that the library also makes for each pod, which are token, status, last status and deletion.
 * Runs while `work` runs.
 */
export async function withBareLoop(
  { client, administrator }: { readonly client: ApiClient; readonly administrator: ApiClient },
  nodeName: string,
  work: () => Promise<void>,
): Promise<void> {
  const underWay = new Set<Promise<void>>();
  const stop = new AbortController();
  const informer = createInformer<Pod>({
    client,
    path: paths.pods(),
    query: { fieldSelector: `spec.nodeName=${nodeName}` },
    onEvent: (event) => {
      const { object } = event;
      if (event.type === "added") underWay.add(unlessGone(startBare(client, object)));
      if (event.type !== "updated") return;
      const wasAsked = event.previous.metadata?.deletionTimestamp !== undefined;
      if (object.metadata?.deletionTimestamp !== undefined && !wasAsked)
        underWay.add(unlessGone(endBare(client, object)));
    },
    logger: silentLogger,
    clock: systemClock,
    signal: stop.signal,
  });
  await informer.synced;
  // Kubernetes deletes pods of missing nodes after 40 s, which would disturb the benchmark.
  await client.create(paths.nodes(), { metadata: { name: nodeName } });
  const beating = heartbeat(client, nodeName, stop.signal);
  await work();
  await Promise.all(underWay);
  stop.abort();
  await beating;
  await administrator.delete(paths.nodes(nodeName));
}

async function heartbeat(client: ApiClient, nodeName: string, signal: AbortSignal): Promise<void> {
  const lease = createLeaseHolder({
    client,
    namespace: "kube-node-lease",
    name: nodeName,
    holder: nodeName,
    durationSeconds: 40,
    clock: systemClock,
  });
  const conditions = [{ type: "Ready", status: "True", reason: "Bench" }];
  await client.patch(paths.nodes(nodeName, "status"), { status: { conditions } }, "strategic");
  while (!signal.aborted) {
    await lease.renew();
    await systemClock.sleep(10_000, signal).catch(() => {}); // the work is done
  }
}

async function unlessGone(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

async function startBare(client: ApiClient, { metadata, spec }: Pod): Promise<void> {
  const { namespace, name, uid } = metadata;
  await requestToken(client, { namespace, serviceAccount: "default", pod: { name, uid } });
  const startedAt = wireTime(Date.now());
  const state = { running: { startedAt } };
  const status = {
    phase: "Running",
    podIP: "198.51.100.7",
    startTime: startedAt,
    conditions: [{ type: "Ready", status: "True" }],
    containerStatuses: (spec?.containers ?? []).map(({ name: container }) => ({
      name: container,
      ready: true,
      restartCount: 0,
      image: "",
      imageID: "",
      state,
    })),
  };
  await client.patch(paths.pods(namespace, name, "status"), { status }, "strategic");
}

async function endBare(client: ApiClient, { metadata }: Pod): Promise<void> {
  const { namespace, name, uid } = metadata;
  const status = { phase: "Succeeded" };
  await client.patch(paths.pods(namespace, name, "status"), { status }, "strategic");
  await client.delete(paths.pods(namespace, name), { uid, graceSeconds: 0 });
}
