import { errorText } from "@kip/base";
import { createEventRecorder } from "@kip/k8s-client";
import { startKubeletApi } from "../kubelet-api/index.ts";
import { measuredClient } from "../metrics/measured-client.ts";
import { NodeMetrics } from "../metrics/node-metrics.ts";
import type { PodStatusUpdate } from "../pod-provider.ts";
import { PodController } from "../pods/pod-controller.ts";
import { kubeletApiFeatures } from "./declared-features.ts";
import { kubeletHandlers } from "./kubelet-handlers.ts";
import { inTime } from "../providers/in-time.ts";
import { noTracer } from "../tracing.ts";
import { NodeController } from "./node-controller.ts";
import { nodeIntervals } from "./node-intervals.ts";
import type { NodeOptions, RunningNode } from "./node-options.ts";
import { NodeTls } from "./node-tls.ts";
import { keepServingCertificate } from "./serving-certificate.ts";

/** How long a node that ends waits for its events to be written, milliseconds. */
const lastEventsMs = 5000;

/** How long it waits before that for the ends of its pods to be written, milliseconds. */
const lastStatusesMs = 5000;

/** How long it waits for its provider to stop, milliseconds. */
const lastCallMs = 10_000;

/**
 * Registers a node and runs the pods bound to it with a provider. Resolves when the node is
 * registered and its pods are known.
 *
 * The order: the provider starts; the kubelet API listens; the pods and what the provider has are
 * compared; the node is registered and becomes ready. Disposing goes backwards and changes nothing in
 * the cluster: the pods go on, and the node counts as ready until its lease ends, so that a restart
 * within that time is not noticed. Pods that have ended have five seconds to be written as such.
 *
 * @throws {KipError} if the API server refuses the node for good, or the kubelet API cannot listen
 */
export async function startNode(options: NodeOptions): Promise<RunningNode> {
  const { nodeName, provider, clock, metrics = new NodeMetrics() } = options;
  const client = measuredClient(options.client, metrics);
  const logger = options.logger.with({ node: nodeName });
  const intervals = nodeIntervals(options.intervals);
  const stop = new AbortController();
  await using started = new AsyncDisposableStack();
  const end = (): void => stop.abort(options.signal?.reason);
  started.defer(() => {
    options.signal?.removeEventListener("abort", end);
    stop.abort();
  });
  options.signal?.throwIfAborted();
  options.signal?.addEventListener("abort", end, { once: true });

  const recorder = createEventRecorder({
    client,
    component: "kubelet",
    host: nodeName,
    logger,
    clock,
  });
  // Nothing else may know how they ended: a pod that succeeded would run again.
  started.defer(() => withinTime(known?.flushEnds(), lastStatusesMs));
  started.defer(async () => {
    if (!provider.stop) return;
    // What it may throw at its end concerns nobody any more.
    await inTime(provider.stop(), { clock, limitMs: lastCallMs }).catch((err: unknown) => {
      logger.warn("The provider did not stop well", { err });
    });
  });
  // What a provider says before it is asked anything must neither fail nor be lost.
  const early = new Map<string, PodStatusUpdate>();
  let haveFactsChanged = false;
  let known: PodController | undefined;
  let node: NodeController | undefined;
  await provider.start({
    podStatus: (update) => {
      if (known) known.podStatus(update);
      else early.set(update.uid, update);
    },
    podEvent: (event) => known?.podEvent(event),
    nodeChanged: () => {
      if (node) void node.factsChanged();
      else haveFactsChanged = true;
    },
  });
  const facts = await provider.nodeFacts();
  const pods = new PodController({
    client,
    nodeName,
    provider,
    early,
    recorder,
    resolveEnv: options.resolveEnv !== false,
    allocatable: () => node?.allocatable ?? facts.allocatable ?? facts.capacity,
    backoffMs: intervals.podBackoffMs,
    backoffMaxMs: intervals.podBackoffMaxMs,
    slowCallMs: intervals.slowCallMs,
    answerMs: intervals.pingTimeoutMs,
    metrics,
    tracer: options.tracer ?? noTracer,
    clock,
    logger,
    signal: stop.signal,
  });
  known = pods;
  metrics.podCounts = () => pods.counts();
  const api =
    options.kubelet &&
    started.use(
      await startKubeletApi({
        ...options.kubelet,
        handlers: kubeletHandlers({
          nodeName,
          provider,
          pods,
          intervals,
          problem: () => node?.problem,
        }),
        clock,
        logger,
      }),
    );
  await pods.synced;
  await sweep();

  const kubeletPort = api?.port ?? options.kubeletPort;
  node = new NodeController({
    client,
    identity: {
      nodeName,
      os: options.os ?? "linux",
      arch: options.arch ?? "amd64",
      kubeletVersion: options.kubeletVersion ?? "v1.34.0-kip",
      kubeletPort,
      features: api ? kubeletApiFeatures : [],
    },
    provider,
    taints: options.taints ?? [
      {
        key: "virtual-kubelet.io/provider",
        value: options.providerName ?? "kip",
        effect: "NoSchedule",
      },
    ],
    intervals,
    hasLease: options.lease !== false,
    ...(options.onStatusError && { onStatusError: options.onStatusError }),
    recorder,
    facts,
    clock,
    logger,
    signal: stop.signal,
  });
  await node.register();
  if (haveFactsChanged) void node.factsChanged();
  const tls =
    api &&
    options.kubelet &&
    new NodeTls({
      api,
      tls: options.kubelet,
      reload: options.reloadTls,
      clock,
      logger,
      signal: stop.signal,
    });
  const running = Promise.all([node.run(), sweepForEver(), keepCertificate(), tls?.run()]);
  const owned = started.move();

  return {
    kubeletPort,
    pods: () => pods.list(),
    findPod: (namespace, name, uid) => pods.find(namespace, name, uid),
    sweep,
    replaceTls: (next) => tls?.replace(next),
    [Symbol.asyncDispose]: async () => {
      await owned.disposeAsync();
      await running;
      await withinTime(recorder.flush(), lastEventsMs);
    },
  };

  /** What an API server that is away does not take in time is lost. */
  async function withinTime(flushed: Promise<void> | undefined, limitMs: number): Promise<void> {
    const limit = new AbortController();
    const late = clock.sleep(limitMs, limit.signal).catch(() => {});
    await Promise.race([flushed, late]);
    limit.abort();
  }

  async function sweep(): Promise<void> {
    try {
      await pods.sweep();
    } catch (error) {
      if (!stop.signal.aborted)
        logger.warn("Could not compare the pods with the provider's", { cause: errorText(error) });
    }
  }

  async function keepCertificate(): Promise<void> {
    if (!tls || options.requestCertificate !== true) return;
    await keepServingCertificate({
      client,
      nodeName,
      ipAddresses: [facts.internalIp],
      onCertificate: (pair) => tls.useIssued(pair),
      clock,
      logger,
      signal: stop.signal,
    });
  }

  async function sweepForEver(): Promise<void> {
    while (!stop.signal.aborted) {
      // Events tell of every change; this is the net below them.
      await clock.sleep(intervals.sweepMs, stop.signal).catch(() => {}); // stopped
      if (!stop.signal.aborted) await sweep();
    }
  }
}
