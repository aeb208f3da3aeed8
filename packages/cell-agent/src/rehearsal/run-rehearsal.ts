import { lookup } from "node:dns/promises";
import fs from "node:fs/promises";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { createSecureContext } from "node:tls";
import {
  AgentError,
  AgentClient,
  type DesiredPod,
  type NetworkChanges,
  type PodReport,
} from "@kip/agent-api";
import { silentLogger, untilAborted } from "@kip/base";
import { encodeLine, type ViewLine } from "@kip/network-view";
import { agentDirectories } from "../storage/agent-directories.ts";
import { loadDependencies, type AgentDependencies } from "../dependencies/agent-dependencies.ts";
import { startAgent } from "../agent/start-agent.ts";
import { kernelMounter } from "../volumes/mounter.ts";
import type { RehearsalOptions } from "./rehearsal.ts";
import { startLoopbackRegistry } from "./loopback-registry.ts";
import { throwAwayIdentity } from "./throw-away-identity.ts";

/** @see RehearsalOptions */
export async function runRehearsal(options: RehearsalOptions): Promise<void> {
  const stateDir = `${options.stateDir}/rehearsal`;
  const runDir = `${options.runDir}/rehearsal`;
  const begin = options.clock.monotonic();
  // Also removes what an interrupted rehearsal left.
  await removeFolders([stateDir, runDir]);
  await fs.mkdir(runDir, { recursive: true, mode: 0o700 });
  const identity = await throwAwayIdentity(runDir);
  {
    await using registry = await startLoopbackRegistry(runDir);
    await using agent = await startAgent({
      identity,
      agentVersion: "rehearsal",
      stateDir,
      runDir,
      port: 0,
      host: "127.0.0.1",
      logger: silentLogger,
      clock: options.clock,
      loadDependencies: async () => await rehearsalDependencies({ ...options, stateDir, runDir }),
    });
    await using client = await AgentClient.connect({
      ...identity,
      address: "127.0.0.1",
      port: agent.port,
      connectTimeoutMs,
      logger: silentLogger,
    });
    const stop = new AbortController();
    const network = client.sendNetwork(() => emptyNetwork(), stop.signal);
    await client.putPod(rehearsalPod(registry.host));
    await waitFor(client, (report) => report.containers[0]?.ready === true);
    await useContainer(client);
    await client.deletePod(0);
    await waitFor(client, (report) => report.containers[0]?.terminated !== undefined);
    stop.abort();
    await network;
  }
  await warmUp();
  await removeFolders([stateDir, runDir]);
  options.logger.info("Rehearsed", { durationMs: Math.round(options.clock.monotonic() - begin) });
}

async function removeFolders(folders: readonly string[]): Promise<void> {
  const table = await fs.readFile("/proc/self/mountinfo", "utf8");
  const places = table.split("\n").map((line) => line.split(" ")[4] ?? "");
  // The dependencies keep mounts for their whole life, which is that of the machine. Innermost first.
  for (const place of places.reverse()) {
    if (folders.some((folder) => place.startsWith(`${folder}/`)))
      await kernelMounter.unmount(place);
  }
  for (const folder of folders) await fs.rm(folder, { recursive: true, force: true });
}

/**
 * The network of a cluster with one Service without endpoints, in a range that no machine uses. It makes the kernel load what a
 * pod's rules need. The pod creates its own tables.
 */
function emptyNetwork(): NetworkChanges {
  const port = { name: "", protocol: "TCP", port: 80, endpoints: [] } as const;
  const view = { clusterIps: ["192.0.2.3"], ports: [port] };
  const lines: readonly ViewLine[] = [
    { kind: "policy", policy: {} },
    { kind: "service", key: "rehearsal/rehearsal", view },
    { kind: "end", number: 1 },
  ];
  let isSent = false;
  return {
    next: async (signal) => {
      if (isSent) await untilAborted(new Promise(() => {}), signal);
      isSent = true;
      return [Buffer.from(lines.map(encodeLine).join(""))];
    },
  };
}

/** Generous, because templates are created in the background. */
const connectTimeoutMs = 60_000;

async function rehearsalDependencies(
  options: RehearsalOptions & { readonly stateDir: string; readonly runDir: string },
): Promise<AgentDependencies> {
  const { hostInterface, clock } = options;
  const directories = agentDirectories(options.stateDir, options.runDir);
  const dependencies = await loadDependencies({
    directories,
    clock,
    logger: silentLogger,
    preparesRules: true,
  });
  return {
    ...dependencies,
    // There is no route yet that would determine the interface.
    createSandbox: async (sandbox) =>
      await dependencies.createSandbox({ ...sandbox, hostInterface }),
  };
}

/** What most pods have: a Secret's volume, an emptyDir, a probe. */
function rehearsalPod(registry: string): DesiredPod {
  const volumes: DesiredPod["volumes"] = [
    { name: "token", kind: "files", files: [{ path: "token", data: "a2lw", mode: 0o600 }] },
    { name: "scratch", kind: "emptyDir" },
  ];
  return {
    uid: "rehearsal",
    namespace: "rehearsal",
    name: "rehearsal",
    generation: 1,
    restartPolicy: "Never",
    hostname: "rehearsal",
    hostNetwork: false,
    network: { nodeAddresses: ["192.0.2.2"], serviceRanges: [] },
    // From a range that no machine uses (RFC 5737).
    podIp: "192.0.2.1",
    labels: {},
    annotations: {},
    terminationGracePeriodSeconds: 0,
    resolvConf: "",
    etcHosts: "127.0.0.1 localhost\n",
    initContainers: [],
    containers: [
      {
        name: "rehearsal",
        image: `${registry}/rehearsal:1`,
        imagePullPolicy: "Always",
        command: ["/bin/busybox", "sleep", "86400"],
        env: [{ name: "REHEARSAL", value: "1" }],
        mounts: [
          { name: "token", mountPath: "/token", readOnly: true },
          { name: "scratch", mountPath: "/scratch" },
        ],
        memoryBytesLimit: 64 * 2 ** 20,
        readinessProbe: { exec: { command: ["/bin/busybox", "true"] }, timeoutSeconds: 60 },
        terminationMessagePath: "/dev/termination-log",
        terminationMessagePolicy: "File",
      },
    ],
    volumes,
    registries: [{ host: registry, endpoint: `http://${registry}` }],
  };
}

async function waitFor(
  client: AgentClient,
  isReached: (report: PodReport) => boolean,
): Promise<void> {
  const stop = new AbortController();
  try {
    for await (const report of client.status(stop.signal)) {
      if (isReached(report)) return;
      const failure = report.events.find(({ type }) => type === "Warning");
      const isOver = report.phase === "Failed" || report.phase === "Succeeded";
      if (isOver || failure) {
        const reason = failure?.message ?? "the container ended";
        throw new AgentError("REHEARSAL_FAILED", `Cannot rehearse the start of a pod: ${reason}`);
      }
    }
  } finally {
    stop.abort();
  }
}

async function useContainer(client: AgentClient): Promise<void> {
  const signal = new AbortController().signal;
  const stdout = new PassThrough();
  const command = ["/bin/busybox", "echo", "rehearsal"];
  await client.exec("rehearsal", command, { tty: false, stdout }, signal);
  await text(stdout);
  await text(await client.logs("rehearsal", {}, signal));
  await client.stats();
}

/** Warms up what the loopback registry does not need: the system's certificates, and name resolution. */
async function warmUp(): Promise<void> {
  createSecureContext();
  await lookup("localhost");
}
