import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import { inParallel, silentLogger, systemClock } from "@kip/base";
import { createApiClient, loadKubeConfig, paths, type ApiClient } from "@kip/k8s-client";
import type { StoredService } from "@kip/k8s-types/network";
import { eventually as poll, isWholeRun } from "@kip/testing";
import { residentMiB } from "../bench/measure.ts";
import { cluster, eventually, providerProcess, shellPod, type Cluster } from "./cluster.ts";

const namespaces = { flood: "service-flood", other: "beside-flood" } as const;
const serviceCount = 2000;
const endpointsPerService = 10;
/** Number of changes of EndpointSlices after the Services were created. */
const changeCount = 2000;
const writers = 16;

/**
 * How many times longer a change may take during a flood than without one, from the write of an EndpointSlice to the first
 * answer of the new endpoint. The change waits for one part of the flood and is applied together with another one. A cell needs
 * about twelve times as long for a part.
 */
const mostTimes = 30;
/** How much additional memory the cell's agent may use at its peak, MiB. */
const agentLimitMiB = 48;

/** Two servers, and a client that sends requests to the Service for one of them without a pause. */
const podScript = (address: string): string => `
for name in one two; do mkdir -p /$name; echo $name >/$name/index.html; done
httpd -p 8081 -h /one; httpd -p 8082 -h /two
while :; do wget -qT3 -O- http://${address}/ || echo failed; done`;
const portOf = { one: 8081, two: 8082 } as const;
type Server = keyof typeof portOf;

const agentStatus =
  "cat $(dirname $(grep -l 'itzo[.]js' /cell-processes/[0-9]*/cmdline | head -n1))/status";

function webPod(address: string): object {
  return shellPod(
    "web",
    podScript(address),
    { volumes: [{ name: "processes", hostPath: { path: "/proc" } }] },
    {
      volumeMounts: [{ name: "processes", mountPath: "/cell-processes" }],
      securityContext: { privileged: true },
    },
  );
}

function slice(service: string, addresses: readonly string[], port = 8080): object {
  return {
    metadata: { name: `${service}-1`, labels: { "kubernetes.io/service-name": service } },
    addressType: "IPv4",
    ports: [{ name: "", port, protocol: "TCP" }],
    endpoints: addresses.map((address) => ({ addresses: [address] })),
  };
}

/** Creates the Services of one namespace, and then changes them without a pause. */
async function flood(client: ApiClient): Promise<void> {
  const { flood: namespace } = namespaces;
  const addresses = (i: number, round: number): readonly string[] =>
    Array.from({ length: endpointsPerService }, (_, j) => {
      const number = i * endpointsPerService + j; // an address that does not exist
      return `10.${40 + round}.${number >> 8}.${number & 255}`;
    });
  await inParallel(Array(serviceCount).keys(), writers, async (i) => {
    const spec = { ports: [{ port: 80, targetPort: 8080 }] };
    await client.create(paths.services(namespace), { metadata: { name: `s${i}` }, spec });
    await client.create(paths.endpointSlices(namespace), slice(`s${i}`, addresses(i, 0)));
  });
  await inParallel(Array(changeCount).keys(), writers, async (n) => {
    const i = n % serviceCount;
    const changed = slice(`s${i}`, addresses(i, 1 + Math.floor(n / serviceCount)));
    await client.replace(paths.endpointSlices(namespace, `s${i}-1`), changed);
  });
}

describe(
  "a namespace that makes and changes thousands of Services",
  { skip: !isWholeRun && "takes minutes: npm run test:e2e:all" },
  () => {
    let kube: Cluster;
    let client: ApiClient;
    const over = new AbortController();
    let logs: ChildProcess | undefined;
    let logsEnded: Promise<void> | undefined;
    let podIp = "";
    const answers: string[] = [];

    before(async () => {
      kube = await cluster(namespaces.other);
      client = createApiClient(await loadKubeConfig({ path: kube.kubeconfig }), {
        userAgent: "service-flood",
        logger: silentLogger,
        clock: systemClock,
      });
      const spec = { ports: [{ port: 80 }] };
      await kube.apply(
        { apiVersion: "v1", kind: "Service", metadata: { name: "web" }, spec },
        { apiVersion: "v1", kind: "Namespace", metadata: { name: namespaces.flood } },
      );
      await kube.apply(webPod(await clusterIpOf(namespaces.other, "web")));
      await kube.ok("wait", "--for=condition=Ready", "pod/web", "--timeout=240s");
      podIp = await kube.ok("get", "pod", "web", "-o", "jsonpath={.status.podIP}");
      const { one } = portOf;
      await client.create(paths.endpointSlices(namespaces.other), slice("web", [podIp], one));
      logsEnded = followLogs();
      await eventually("answers", () => answers.at(-1) === "one");
      answers.length = 0;
    });
    after(async () => {
      over.abort();
      logs?.kill();
      await logsEnded;
      client.close();
      await kube.ok("delete", "pod", "--all", "--timeout=120s");
      await kube.ok("delete", "namespace", namespaces.flood, "--timeout=240s");
    });

    /** Reads the client's output during the whole test. A busy API server may end a log stream. */
    const followLogs = async (): Promise<void> => {
      const words = ["--kubeconfig", kube.kubeconfig, "-n", namespaces.other];
      for (let since = "1s"; !over.signal.aborted; since = "5s") {
        logs = spawn(kube.kubectlPath, [...words, "logs", "-f", "web", `--since=${since}`], {
          stdio: ["ignore", "pipe", "inherit"],
        });
        assert.ok(logs.stdout);
        createInterface({ input: logs.stdout }).on("line", (line) => answers.push(line));
        await once(logs, "close");
      }
    };
    const clusterIpOf = async (namespace: string, name: string): Promise<string> =>
      (await client.get<StoredService>(paths.services(namespace, name))).spec?.clusterIP ?? "";
    const within = async (script: string): Promise<string> =>
      (await kube.kubectl("exec", "web", "--", "sh", "-c", script)).stdout;
    /** Resident memory of the cell's agent: current and peak. */
    const agentMiB = async (): Promise<{ readonly now: number; readonly peak: number }> => {
      const status = await within(agentStatus);
      const read = (field: string): number =>
        Number(new RegExp(`^${field}:\\s*(\\d+) kB`, "m").exec(status)?.[1]) / 1024;
      return { now: read("VmRSS"), peak: read("VmHWM") };
    };
    /** Points the Service to the other server. @returns milliseconds until that server answers */
    const lead = async (server: Server, limitMs = 60_000): Promise<number> => {
      const began = performance.now();
      const path = paths.endpointSlices(namespaces.other, "web-1");
      await client.replace(path, slice("web", [podIp], portOf[server]));
      await poll(() => answers.at(-1) === server, {
        what: `an answer of ${server}`,
        limitMs,
        intervalMs: 20,
      });
      return performance.now() - began;
    };
    /** Changes the last Service of the flood once more. This change comes after all others of its namespace. */
    const endFlood = async (limitMs: number): Promise<number> => {
      const began = performance.now();
      const name = `s${serviceCount - 1}`;
      const last = slice(name, [podIp], portOf.two);
      await client.replace(paths.endpointSlices(namespaces.flood, `${name}-1`), last);
      const ask = `wget -qT3 -O- http://${await clusterIpOf(namespaces.flood, name)}/`;
      const isThere = async (): Promise<boolean> => (await within(ask)).includes("two");
      await eventually("the flood's last change", isThere, limitMs);
      return performance.now() - began;
    };

    it("does not hold back changes of another one's Service, and no request to that fails", async (context) => {
      const before = await agentMiB();
      const kipMiB = [residentMiB(providerProcess())];
      const quiet = [await lead("two"), await lead("one")];
      const limitMs = mostTimes * Math.max(...quiet);
      const times: number[] = [];
      const flooded = new AbortController();
      const change = async (): Promise<void> => {
        for (let n = 0; !flooded.signal.aborted; n++)
          times.push(await lead(n % 2 === 0 ? "two" : "one", limitMs));
      };
      const began = performance.now();
      await Promise.all([flood(client).finally(() => flooded.abort()), change()]).finally(() =>
        context.diagnostic(JSON.stringify({ quiet, times, floodMs: performance.now() - began })),
      );
      kipMiB.push(residentMiB(providerProcess()));
      const lastMs = await endFlood(2 * limitMs);
      const { peak } = await agentMiB();
      const figures = { lastMs, requests: answers.length, agentMiB: [before.now, peak], kipMiB };
      context.diagnostic(JSON.stringify(figures));
      assert.deepEqual(new Set(answers), new Set(["one", "two"]));
      assert.ok(peak - before.now < agentLimitMiB, JSON.stringify(figures));
    });
  },
);
