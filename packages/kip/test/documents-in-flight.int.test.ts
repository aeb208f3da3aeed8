// Cells whose agents do not read the pod that kip sends. Kip keeps the unread part in memory.
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { Worker } from "node:worker_threads";
import { AgentClient, AgentError, cellServerName, maxBodyBytes } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import { podWith } from "@kip/k8s-types/testing";
import { CertificateAuthority, type KeyPair } from "@kip/pki";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { desiredPod } from "../src/dispatch/desired-pod.ts";
import { DocumentPlaces } from "../src/dispatch/document-places.ts";
import { checkDocumentSize, expectedBytes } from "../src/dispatch/document-size.ts";

const hour = 3_600_000;
const cellName = "cell-1";
const mebibyte = 2 ** 20;
const isOnCell = { isOnCell: true };

/** Agents that read no body, and either send no response, or respond with this status before they would read. */
const agents = `
  const { parentPort, workerData } = require("node:worker_threads");
  const server = require("node:http2").createSecureServer(workerData);
  server.on("stream", (stream) => {
    stream.on("error", () => {});
    if (workerData.status === undefined) return;
    stream.pause();
    stream.respond({ ":status": workerData.status });
    stream.end(JSON.stringify({ generation: 1, code: "AGENT_OTHER_POD", message: "no" }));
    stream.resume = () => stream; // what ends the answer would read the body
  });
  server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));
`;

/** A pod whose document is nearly as long as possible. */
function largePod(): ResolvedPod {
  const data = new Uint8Array(maxBodyBytes * 0.74).fill(65);
  const pod = podWith({
    spec: {
      containers: [{ name: "main", image: "a" }],
      volumes: [{ name: "v", configMap: { name: "m" } }],
    },
  });
  const files = new Map([["v", [{ path: "large", data, mode: 0o644 }]]]);
  return { pod, files, env: new Map(), lateEnv: new Map(), pullSecrets: [] };
}

function documentOf(resolved: ResolvedPod) {
  const document = desiredPod(resolved, {
    nodeIp: "10.0.0.1",
    addresses: { podIPs: ["10.0.0.2"], hostIPs: ["10.0.0.3"] },
    dns: { clusterDns: [], clusterDomain: "c", hostNameservers: [], hostSearchDomains: [] },
    registries: [],
    generation: 1,
  });
  return { document, bytes: checkDocumentSize(document, isOnCell) };
}

/** How far the process' memory rises above its start while something is done, MiB. */
async function memoryOf(work: () => Promise<unknown>): Promise<number> {
  const before = process.memoryUsage.rss();
  let most = before;
  const timer = setInterval(() => (most = Math.max(most, process.memoryUsage.rss())), 20);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return (most - before) / mebibyte;
}

async function startAgents(
  authority: CertificateAuthority,
  status?: number,
): Promise<[Worker, number]> {
  const dnsNames = [cellServerName(cellName)];
  const usages = ["server"] as const;
  const pair = await authority.issue({ commonName: cellName, dnsNames, usages, validMs: hour });
  const { certificate: cert, key } = pair;
  const workerData = { ca: authority.certificate, cert, key, requestCert: true, status };
  const worker = new Worker(agents, { eval: true, workerData });
  const [port] = (await once(worker, "message")) as [number];
  return [worker, port];
}

async function connect(authority: CertificateAuthority, kip: KeyPair, port: number) {
  return await AgentClient.connect({
    address: "127.0.0.1",
    port,
    cellName,
    ca: authority.certificate,
    ...kip,
    logger: silentLogger,
    answerTimeoutMs: 1500,
  });
}

describe("hostile cells: documents in flight", () => {
  it("takes at most 300 MiB for 80 cells that do not read 8 MiB", { timeout: 60_000 }, async () => {
    const authority = await CertificateAuthority.create({ commonName: "kip", validMs: hour });
    const kip = await authority.issue({ commonName: "kip", usages: ["client"], validMs: hour });
    const [worker, port] = await startAgents(authority);
    const clients = await Promise.all(
      Array.from({ length: 80 }, async () => await connect(authority, kip, port)),
    );
    const places = new DocumentPlaces();
    const resolved = largePod();
    const bytes = expectedBytes(resolved, isOnCell);
    assert.ok(bytes > 7 * mebibyte);
    const abort = new AbortController();
    let inFlight = 0;
    let most = 0;
    let late = 0;
    const send = async (client: AgentClient, at: number): Promise<void> => {
      const make = () => documentOf(resolved);
      const use = async (document: ReturnType<typeof make>["document"]): Promise<void> => {
        most = Math.max(most, ++inFlight);
        await client.putPod(document, abort.signal).catch((error: unknown) => {
          inFlight -= 1;
          // The others get their turns, too.
          if (AgentError.is(error, "AGENT_UNREACHABLE")) late += 1;
          if (late === 8) abort.abort();
        });
      };
      const size = { namespace: `n${at % 8}`, bytes };
      await places.send(size, { make, use }, abort.signal).catch(() => {});
    };
    const took = await memoryOf(async () => await Promise.all(clients.map(send)));
    assert.ok(took < 300, `${took.toFixed(0)} MiB`);
    assert.deepEqual([late >= 8, most <= 4, inFlight], [true, true, 0], `${late} ${most}`);
    await Promise.all(clients.map(async (client) => await client[Symbol.asyncDispose]()));
    await worker.terminate();
  });

  for (const status of [200, 409])
    it(`keeps nothing of what cells do not read that answer ${status} before they read`, async () => {
      const authority = await CertificateAuthority.create({ commonName: "kip", validMs: hour });
      const kip = await authority.issue({ commonName: "kip", usages: ["client"], validMs: hour });
      const [worker, port] = await startAgents(authority, status);
      const clients = await Promise.all(
        Array.from({ length: 40 }, async () => await connect(authority, kip, port)),
      );
      const places = new DocumentPlaces();
      const resolved = largePod();
      const size = { namespace: "n", bytes: expectedBytes(resolved, isOnCell) };
      const { signal } = new AbortController();
      let answered = 0;
      const took = await memoryOf(async () => {
        for (const client of clients) {
          const make = () => documentOf(resolved);
          const use = async (document: ReturnType<typeof make>["document"]): Promise<void> => {
            const isRefusal = (error: unknown): boolean => AgentError.is(error, "AGENT_OTHER_POD");
            if (status === 200) assert.equal(await client.putPod(document, signal), 1);
            else await assert.rejects(client.putPod(document, signal), isRefusal);
            answered += 1;
          };
          await places.send(size, { make, use }, signal);
        }
      });
      await Promise.all(clients.map(async (client) => await client[Symbol.asyncDispose]()));
      await worker.terminate();
      assert.ok(took < 200, `${took.toFixed(0)} MiB`);
      assert.equal(answered, 40);
    });
});
