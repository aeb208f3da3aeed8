// npm run bench: figures of the local cloud, one JSON line each. Options: --runs N (default 3)
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { AgentClient } from "@kip/agent-api";
import { silentLogger, systemClock } from "@kip/base";
import { createApiClient, loadKubeConfig, paths, type ApiClient } from "@kip/k8s-client";
import type { Pod, Secret } from "@kip/k8s-types";
import type { Cell } from "@kip/kip";
import { startPhases } from "@kip/kip";
import { CertificateAuthority } from "@kip/pki";
import { bareBoot } from "./bare-boot.ts";
import { figure, median, residentMiB } from "./measure.ts";

const { values } = parseArgs({ options: { runs: { type: "string", default: "3" } } });
const runs = Number(values.runs);
const folder = mkdtempSync(path.join(tmpdir(), "kip-bench-"));
process.env["KIP_E2E_DIR"] = folder;
const { kipCommand, providerProcess, upFlags, clusterFlags } = await import("../e2e/cluster.ts");
const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";

try {
  await bench();
} finally {
  await kipCommand("down", ...clusterFlags);
  rmSync(folder, { recursive: true, force: true });
}

async function bench(): Promise<void> {
  await kipCommand("up", ...upFlags);
  await kipCommand("down", ...clusterFlags);
  const began = performance.now();
  const up = await kipCommand("up", ...upFlags);
  if (up.status !== 0) throw new Error(up.stderr);
  figure("kip up, everything cached, to node Ready", [performance.now() - began], "ms");
  const kubeconfig = (
    await kipCommand("status", ...clusterFlags, "--show=kubeconfig")
  ).stdout.trim();
  const config = await loadKubeConfig({ path: kubeconfig });
  const client = createApiClient(config, {
    userAgent: "bench",
    logger: silentLogger,
    clock: systemClock,
  });
  await using bare = await bareBoot(cacheDir, folder);
  const boots: number[] = [];
  const pods: number[] = [];
  const cells: Cell[] = [];
  for (let run = 0; run < runs; run++) {
    boots.push(await bare.boot("local.small"));
    const pod = await timePod(client, `cold-${run}`);
    pods.push(pod.ms);
    cells.push(pod.cell);
    if (run === runs - 1) await agentFigures(client, pod.cell);
    await client.delete(paths.pods("default", `cold-${run}`), { graceSeconds: 0 });
  }
  figure("bare boot to first HTTP answer", boots, "ms");
  figure("cold pod, create to Ready", pods, "ms", {
    ratioToBareBoot: Math.round((median(pods) / median(boots)) * 100) / 100,
  });
  for (const phase of startPhases) {
    figure(
      `cold pod, phase ${phase}`,
      cells.map((cell) => cell.status?.startMs?.[phase] ?? Number.NaN),
      "ms",
    );
  }
  figure("kip resident memory", [residentMiB(providerProcess())], "MiB");
  client.close();
}

async function timePod(
  client: ApiClient,
  name: string,
): Promise<{ readonly ms: number; readonly cell: Cell }> {
  const pod = {
    metadata: { name },
    spec: {
      containers: [
        {
          name: "main",
          image: "kip.local/demo:latest",
          command: ["sleep", "100000"],
          resources: { requests: { cpu: "1", memory: "1Gi" } },
        },
      ],
    },
  };
  const began = performance.now();
  const created = await client.create<Pod>(paths.pods("default"), pod);
  const query = {
    fieldSelector: `metadata.name=${name}`,
    watch: true,
    resourceVersion: created.metadata?.resourceVersion,
  };
  const stream = await client.stream(paths.pods("default"), { query });
  let text = "";
  for await (const chunk of stream.setEncoding("utf8")) {
    text += String(chunk);
    const lines = text.split("\n");
    text = lines.pop() ?? "";
    const isReady = lines.some((line) => {
      const { object } = JSON.parse(line) as { object: Pod };
      return object.status?.conditions?.some(
        ({ type, status }) => type === "Ready" && status === "True",
      );
    });
    if (isReady) break;
  }
  const ms = performance.now() - began;
  stream.destroy();
  await sleep(1000); // the Cell's times are written after the pod's status
  const cell = await client.get<Cell>(paths.cells(`cell-${created.metadata?.uid}`));
  return { ms, cell };
}

async function agentFigures(client: ApiClient, cell: Cell): Promise<void> {
  const secret = await client.get<Secret>(paths.secrets("kip-system", "kip-cell-ca"));
  const pem = (key: string): string => Buffer.from(secret.data?.[key] ?? "", "base64").toString();
  const authority = await CertificateAuthority.load({
    certificate: pem("tls.crt"),
    key: pem("tls.key"),
  });
  const pair = await authority.issue({ commonName: "kip", usages: ["client"], validMs: 600_000 });
  await using agent = await AgentClient.connect({
    address: cell.status?.ip ?? "",
    cellName: cell.metadata.name ?? "",
    ca: authority.certificate,
    certificate: pair.certificate,
    key: pair.key,
    logger: silentLogger,
  });
  const first = await agent.stats();
  const seconds = 20;
  await sleep(seconds * 1000);
  const second = await agent.stats();
  const used = (second.agentCpuMicroseconds - first.agentCpuMicroseconds) / 1e6;
  figure("agent resident memory", [second.agentRssBytes / 2 ** 20], "MiB");
  figure("agent idle CPU", [(used / seconds) * 100], "% of a core");
}
