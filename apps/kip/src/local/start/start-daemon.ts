import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { systemClock, type OptionValues } from "@kip/base";
import { startProgress } from "../../cli/task-progress.ts";
import type { DaemonMessage } from "../cluster/daemon-message.ts";
import type { LocalLayout } from "../cluster/layout.ts";
import { markerVariable } from "../cluster/processes.ts";
import type { ClusterParts } from "../prepare/obtain-parts.ts";
import { userKubeconfig } from "./user-kubeconfig.ts";
import { KipError } from "../../errors.ts";

/** Options of `kip up` that are passed on to the daemon. */
const passedOn = [
  "cloud",
  "port",
  "registry-port",
  "network-range",
  "service-range",
  "namespace-name",
  "node-name",
  "act-as-node",
  "templates",
] as const;

/** Options that are only passed on if set, because they have no default. */
const passedOnIfGiven = ["feature-gates", "runtime-config", "audit-log"] as const;

/**
 * Starts the daemon, and prints its progress until the cluster is ready. If this process ends earlier, the daemon stops.
 *
 * @throws {KipError} `LOCAL_CLUSTER_FAILED`
 */
export async function startDaemon(
  options: OptionValues,
  layout: LocalLayout,
  parts: ClusterParts,
): Promise<void> {
  await mkdir(layout.logDir, { recursive: true, mode: 0o700 });
  const log = openSync(layout.daemonLog, "a", 0o600);
  const program = path.join(import.meta.dirname, "../../main.ts");
  const child = spawn(
    process.execPath,
    [program, "local-daemon", ...daemonFlags(options, layout, parts)],
    {
      detached: true,
      stdio: ["ignore", log, log, "ipc"],
      env: { ...process.env, [markerVariable]: layout.stateDir },
    },
  );
  closeSync(log);
  await using progress = startProgress({ output: process.stdout, clock: systemClock });
  await progress.run("Local cluster", async (report) => await untilReady(child, layout, report));
  if (child.connected) child.disconnect();
  child.unref();
}

function daemonFlags(
  options: OptionValues,
  layout: LocalLayout,
  parts: ClusterParts,
): readonly string[] {
  const settings = options.text("settings");
  return [
    `--state-dir=${layout.stateDir}`,
    `--cache-dir=${layout.cacheDir}`,
    `--binaries-dir=${parts.binariesDir}`,
    `--coredns=${parts.coredns}`,
    `--image=${parts.imageId}`,
    ...parts.otherImageIds.map((id) => `--other-image=${id}`),
    `--demo-layout=${parts.demoLayout}`,
    `--kubeconfig=${userKubeconfig(options)}`,
    ...passedOn.map((flag) => `--${flag}=${options.required(flag)}`),
    ...passedOnIfGiven.flatMap((flag) => {
      const value = options.text(flag);
      return value === undefined ? [] : [`--${flag}=${value}`];
    }),
    ...(settings === undefined ? [] : [`--settings=${path.resolve(settings)}`]),
    ...options.list("resolver").map((address) => `--resolver=${address}`),
    ...options.list("nodeport-address").map((address) => `--nodeport-address=${address}`),
    ...options.list("architecture").map((each) => `--architecture=${each}`),
    ...options.list("host-port").map((port) => `--host-port=${port}`),
  ];
}

async function untilReady(
  daemon: ChildProcess,
  { daemonLog }: LocalLayout,
  report: (text: string) => void,
): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const fail = (message: string, remedy = `See ${daemonLog}`): void =>
      reject(new KipError("LOCAL_CLUSTER_FAILED", message, { remedy }));
    daemon.on("message", (message: DaemonMessage) => {
      if (message.kind === "progress") report(message.text);
      else if (message.kind === "ready") resolve();
      else fail(message.message, message.remedy);
    });
    daemon.on("error", reject);
    daemon.on("exit", (code, signal) => {
      const how = signal ?? `exit code ${code}`;
      fail(`Cannot start the local cluster: its daemon ended (${how})`);
    });
  });
}
