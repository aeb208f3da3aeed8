import { setTimeout as sleep } from "node:timers/promises";
import { AgentClient } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import { paths, type ApiClient } from "@kip/k8s-client";
import type { Secret } from "@kip/k8s-types";
import type { Cell } from "@kip/kip";
import { CertificateAuthority } from "@kip/pki";
import { figure, rounded } from "./measure.ts";

const seconds = 20;

/** Connects to a cell's agent like kip does. */
export async function connectAgent(client: ApiClient, cell: Cell): Promise<AgentClient> {
  const secret = await client.get<Secret>(paths.secrets("kip-system", "kip-cell-ca"));
  const pem = (key: string): string => Buffer.from(secret.data?.[key] ?? "", "base64").toString();
  const authority = await CertificateAuthority.load({
    certificate: pem("tls.crt"),
    key: pem("tls.key"),
  });
  const pair = await authority.issue({ commonName: "kip", usages: ["client"], validMs: 600_000 });
  return await AgentClient.connect({
    address: cell.status?.ip ?? "",
    cellName: cell.metadata.name,
    ca: authority.certificate,
    certificate: pair.certificate,
    key: pair.key,
    logger: silentLogger,
  });
}

/** Memory and idle CPU use of a cell's agent, as the agent reports them. */
export async function agentFigures(client: ApiClient, cell: Cell): Promise<void> {
  await using agent = await connectAgent(client, cell);
  const first = await agent.stats();
  await sleep(seconds * 1000);
  const second = await agent.stats();
  const used = (second.agentCpuMicroseconds - first.agentCpuMicroseconds) / 1e6;
  figure("agent resident memory", [second.agentRssBytes / 2 ** 20], "MiB");
  figure("agent idle CPU", [rounded((used / seconds) * 100)], "% of a core");
}
