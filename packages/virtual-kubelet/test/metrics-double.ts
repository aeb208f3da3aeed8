import { once } from "node:events";
import https from "node:https";
import type { AddressInfo } from "node:net";
import { createSelfSigned } from "@kip/pki";

/** What {@link startMetricsDouble} collects from. */
export interface MetricsSource {
  readonly node: string;
  /** Gives the text of the node's `/metrics/resource`. */
  readonly scrape: () => Promise<string>;
}

interface Figure {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  readonly timeMs: number;
}

/**
 * Stands in for metrics-server in a test: reads `/metrics/resource` twice as it does, makes rates of
 * the counters, and serves them as `metrics.k8s.io/v1beta1`.
 */
export async function startMetricsDouble(
  source: MetricsSource,
): Promise<AsyncDisposable & { readonly port: number }> {
  const { certificate: cert, key } = await createSelfSigned({
    commonName: "localhost",
    dnsNames: ["localhost"],
    usages: ["server"],
    validMs: 3_600_000,
  });
  const server = https.createServer({ cert, key }, (request, response) => {
    void answer(source, request.url ?? "").then((document) => {
      response.writeHead(document === undefined ? 404 : 200, {
        "Content-Type": "application/json",
      });
      response.end(JSON.stringify(document ?? {}));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

const root = "/apis/metrics.k8s.io/v1beta1";

async function answer(source: MetricsSource, url: string): Promise<object | undefined> {
  const path = url.split("?")[0] ?? "";
  if (path === root) return resources;
  if (!path.startsWith(root)) return undefined;
  const [before, after] = [read(await source.scrape()), read(await later(source))];
  const usage = (prefix: string, labels: Readonly<Record<string, string>>) => {
    const find = (figures: ReadonlyMap<string, readonly Figure[]>, name: string) =>
      figures.get(`${prefix}_${name}`)?.find((figure) => isSame(figure.labels, labels));
    const [old, now] = [before, after].map((all) => find(all, "cpu_usage_seconds_total"));
    const memory = find(after, "memory_working_set_bytes");
    const seconds = ((now?.timeMs ?? 0) - (old?.timeMs ?? 0)) / 1000;
    const cores = ((now?.value ?? 0) - (old?.value ?? 0)) / seconds;
    return { cpu: `${Math.round(cores * 1e9)}n`, memory: String(memory?.value ?? 0) };
  };
  const times = { timestamp: new Date().toISOString(), window: "10s" };
  const apiVersion = "metrics.k8s.io/v1beta1";
  if (path.startsWith(`${root}/nodes`)) {
    const item = { metadata: { name: source.node }, ...times, usage: usage("node", {}) };
    const isList = path === `${root}/nodes`;
    if (isList) return { kind: "NodeMetricsList", apiVersion, metadata: {}, items: [item] };
    return { kind: "NodeMetrics", apiVersion, ...item };
  }
  const namespace = /\/namespaces\/([^/]+)\/pods/.exec(path)?.[1];
  const pods = (after.get("pod_cpu_usage_seconds_total") ?? []).filter(
    ({ labels }) => namespace === undefined || labels["namespace"] === namespace,
  );
  const items = pods.map(({ labels: pod }) => ({
    metadata: { name: pod["pod"], namespace: pod["namespace"] },
    ...times,
    containers: (after.get("container_cpu_usage_seconds_total") ?? [])
      .filter(({ labels }) => isSame({ ...labels, ...pod }, labels))
      .map(({ labels }) => ({ name: labels["container"], usage: usage("container", labels) })),
  }));
  return { kind: "PodMetricsList", apiVersion, metadata: {}, items };
}

/** A second look, at another time than the first. */
async function later(source: MetricsSource): Promise<string> {
  await new Promise((resolve) => setTimeout(resolve, 100));
  return await source.scrape();
}

function isSame(
  one: Readonly<Record<string, string>>,
  other: Readonly<Record<string, string>>,
): boolean {
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => one[key] === other[key]);
}

function read(text: string): ReadonlyMap<string, readonly Figure[]> {
  const figures = new Map<string, Figure[]>();
  for (const line of text.split("\n")) {
    const [, name = "", set = "", value = "", time] =
      /^([a-z_]+)(?:\{(.*)\})? (\S+)(?: (\d+))?$/.exec(line) ?? [];
    if (name === "") continue;
    const labels = Object.fromEntries(
      [...set.matchAll(/([a-z_]+)="([^"]*)"/g)].map(([, key = "", text_ = ""]) => [key, text_]),
    );
    const list = figures.get(name) ?? [];
    list.push({ labels, value: Number(value), timeMs: Number(time ?? Date.now()) });
    figures.set(name, list);
  }
  return figures;
}

const resources = {
  kind: "APIResourceList",
  apiVersion: "v1",
  groupVersion: "metrics.k8s.io/v1beta1",
  resources: [
    {
      name: "nodes",
      singularName: "",
      namespaced: false,
      kind: "NodeMetrics",
      verbs: ["get", "list"],
    },
    {
      name: "pods",
      singularName: "",
      namespaced: true,
      kind: "PodMetrics",
      verbs: ["get", "list"],
    },
  ],
};
