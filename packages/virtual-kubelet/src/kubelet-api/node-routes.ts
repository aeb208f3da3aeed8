import type { ServerResponse } from "node:http";
import { errorText, withTimeout, type Clock, type Logger } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import { answer, answerInParts, HttpRefusal } from "./transport/answer.ts";
import { healthText, type HealthCheck } from "./health.ts";
import type { KubeletHandlers } from "./options.ts";
import { logsDisabled, type NodeLogRoute, type NodeRoute } from "./routes.ts";
import { cadvisorMetrics } from "./stats/cadvisor-metrics.ts";
import { CpuRates } from "./stats/cpu-rates.ts";
import { metricsContentType, metricsText, type MetricFamily } from "../metrics/metrics-text.ts";
import { NodeCpu, nodeUsage, type NodeUsage } from "./stats/node-usage.ts";
import { probeMetrics } from "./stats/probe-metrics.ts";
import { processMetrics } from "./stats/process-metrics.ts";
import type { RequestMetrics } from "./stats/request-metrics.ts";
import { resourceMetrics } from "./stats/resource-metrics.ts";
import { StatsSource } from "./stats/stats-source.ts";
import { statsSummary } from "./stats/summary.ts";

/** Dependencies of {@link NodeAnswers}. */
export interface NodeAnswersOptions {
  readonly handlers: KubeletHandlers;
  readonly requests: RequestMetrics;
  /** The kubelet API's own configuration. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Time limit for the provider to return the probe counts or a log of the node, milliseconds. */
const answerTimeoutMs = 15_000;

/** Answers requests about the node as a whole. */
export class NodeAnswers {
  readonly #options: NodeAnswersOptions;
  readonly #stats: StatsSource | undefined;
  readonly #rates = new CpuRates();
  readonly #nodeCpu = new NodeCpu();
  readonly #startTimeMs: number;

  constructor(options: NodeAnswersOptions) {
    const { handlers, clock } = options;
    this.#options = options;
    this.#startTimeMs = clock.now();
    this.#stats =
      handlers.stats &&
      new StatsSource(async (signal) => (await handlers.stats?.(signal)) ?? { pods: [] }, clock);
  }

  /** @throws HttpRefusal 501 if the provider does not support it; 404 or 405 for a missing log */
  async send(
    route: NodeRoute | NodeLogRoute,
    query: URLSearchParams,
    response: ServerResponse,
  ): Promise<void> {
    const { handlers } = this.#options;
    switch (route.kind) {
      case "health":
        return answer(response, "text/plain; charset=utf-8", await this.#health(route, query));
      case "pods":
        return answerJson(response, podList(await handlers.pods()));
      case "runningPods":
        return answerJson(response, podList(await handlers.runningPods()));
      case "configz":
        return answerJson(response, { kubeletconfig: this.#config() });
      case "statsSummary": {
        const onlyCpuAndMemory = /^(1|t|true)$/i.test(query.get("only_cpu_and_memory") ?? "");
        const usage = await this.#usage();
        return answerJson(response, statsSummary(usage, this.#rates, { onlyCpuAndMemory }));
      }
      case "resourceMetrics":
        return await answerMetrics(response, resourceMetrics(await this.#usage()));
      case "cadvisorMetrics":
        return await answerMetrics(response, cadvisorMetrics(await this.#usage()));
      case "nodeLog":
        return answer(response, "text/plain; charset=utf-8", await this.#log(route.path));
      case "probeMetrics":
        return await answerMetrics(response, await this.#probes());
      default:
        return answer(response, metricsContentType, await this.#metrics());
    }
  }

  /** Empty if the provider has no probe counts. */
  async #probes(): Promise<readonly MetricFamily[]> {
    const { handlers, clock } = this.#options;
    const [counts, pods] = await Promise.all([
      withTimeout(async (signal) => (await handlers.probes?.(signal)) ?? [], {
        limitMs: answerTimeoutMs,
        clock,
      }),
      handlers.pods(),
    ]);
    return probeMetrics(counts, pods);
  }

  /** @throws HttpRefusal 405 if the provider has no logs, 404 if this one does not exist */
  async #log(path: string): Promise<string> {
    const { handlers, clock } = this.#options;
    const { nodeLog } = handlers;
    if (!nodeLog) throw new HttpRefusal(405, logsDisabled);
    const options = { limitMs: answerTimeoutMs, clock };
    const text = await withTimeout(async (signal) => await nodeLog(path, signal), options);
    if (text === undefined) throw new HttpRefusal(404, "404 page not found");
    return text;
  }

  async #health({ check: only }: NodeRoute, query: URLSearchParams): Promise<string> {
    const { handlers, logger } = this.#options;
    const checks: readonly HealthCheck[] = [
      { name: "ping", check: () => {} },
      { name: "log", check: () => {} },
      { name: "syncloop", check: async () => await handlers.checkHealth?.() },
    ];
    const asked = {
      only,
      isVerbose: query.has("verbose"),
      excluded: query.getAll("exclude"),
    };
    return await healthText(checks, asked, (name, error) => {
      logger.warn("A health check of the node failed", { check: name, err: errorText(error) });
    });
  }

  async #usage(): Promise<NodeUsage> {
    const { handlers, clock } = this.#options;
    if (this.#stats === undefined) throw new HttpRefusal(501, "501 not implemented");
    const [stats, pods] = await Promise.all([this.#stats.read(), handlers.pods()]);
    return nodeUsage(stats, pods, {
      nodeName: handlers.nodeName,
      startTimeMs: this.#startTimeMs,
      nowMs: clock.now(),
      cpu: this.#nodeCpu,
    });
  }

  #config(): Readonly<Record<string, unknown>> {
    return {
      kind: "KubeletConfiguration",
      apiVersion: "kubelet.config.k8s.io/v1beta1",
      ...this.#options.config,
      ...this.#options.handlers.config?.(),
    };
  }

  async #metrics(): Promise<string> {
    const { handlers, requests } = this.#options;
    const pods = await handlers.runningPods();
    const own = metricsText([
      ...requests.families(),
      ...podFamilies(handlers.nodeName, pods),
      ...processMetrics(this.#startTimeMs),
    ]);
    return own + ((await handlers.metrics?.()) ?? "");
  }
}

function podFamilies(nodeName: string, pods: readonly Pod[]): readonly MetricFamily[] {
  const states = new Map([
    ["waiting", 0],
    ["running", 0],
    ["terminated", 0],
  ]);
  for (const { state } of pods.flatMap((pod) => pod.status?.containerStatuses ?? [])) {
    for (const name of Object.keys(state ?? {})) states.set(name, (states.get(name) ?? 0) + 1);
  }
  return [
    {
      name: "kubelet_node_name",
      type: "gauge",
      help: "The node's name, as a label",
      samples: [{ labels: { node: nodeName }, value: 1 }],
    },
    {
      name: "kubelet_running_pods",
      type: "gauge",
      help: "Pods that the provider runs",
      samples: [{ value: pods.length }],
    },
    {
      name: "kubelet_running_containers",
      type: "gauge",
      help: "Containers of the pods that the provider runs, by state",
      samples: [...states].map(([state, value]) => ({
        labels: { container_state: state },
        value,
      })),
    },
  ];
}

function answerJson(response: ServerResponse, document: object): void {
  answer(response, "application/json", JSON.stringify(document));
}

async function answerMetrics(
  response: ServerResponse,
  families: Iterable<MetricFamily>,
): Promise<void> {
  await answerInParts(response, metricsContentType, texts(families));
}

function* texts(families: Iterable<MetricFamily>): Generator<string> {
  for (const family of families) yield metricsText([family]);
}

function podList(pods: readonly Pod[]): object {
  return { kind: "PodList", apiVersion: "v1", metadata: {}, items: pods };
}
