import { spawn, spawnSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { homedir, userInfo } from "node:os";
import path from "node:path";
import { KipError, silentLogger } from "@kip/base";
import { buildCellImage, buildDemoImage } from "@kip/cell-image";
import { findRelease, obtainBinaries } from "@kip/control-plane";
import { helpText, parseOptions, type OptionValues } from "@kip/base";
import { lockCluster } from "./cluster-lock.ts";
import { readRecord, runningCluster } from "./cluster-record.ts";
import type { DaemonMessage } from "./daemon.ts";
import { localLayout, type LocalLayout } from "./layout.ts";
import { upOptions } from "./local-options.ts";
import { lockCache, requireOwnState } from "./own-folders.ts";
import { endProcesses, markerVariable } from "./processes.ts";
import { checkHost } from "./requirements.ts";

const usage =
  "Usage: kip up [options]\n\nStarts a local cluster: a real Kubernetes control plane, and cells as virtual machines.";

/** Starts the local cluster, or finds it running. */
export async function up(args: readonly string[]): Promise<void> {
  const options = parseOptions(upOptions, args, process.env);
  if (options.isSet("help")) return void process.stdout.write(helpText(usage, upOptions));
  const layout = localLayout(options);
  checkHost();
  await requireOwnState(layout, "use");
  const settings = options.text("settings");
  if (settings !== undefined) {
    const { readUserSettings } = await import("./user-settings.ts");
    await readUserSettings(settings);
  }
  await using _cluster = await lockCluster(layout.stateDir, {
    onWait: () => console.log("Waiting for another kip up or kip down"),
  });
  await using _cache = await lockCache(layout.cacheDir);
  if (options.isSet("prepare")) return void (await obtainParts(options, layout));
  const record = await runningCluster(layout);
  if (record) {
    console.log(`The local cluster is running: ${record.server}, context kip-local`);
    if (options.isSet("refresh-image")) {
      await obtainParts(options, layout);
      console.log("Its cells have the new operating system after kip down and kip up");
    }
    return;
  }
  await requireSameNetwork(options, layout);
  // What an interrupted run left behind; machines stay, they are taken over.
  await endLeftovers(layout);
  const parts = await obtainParts(options, layout);
  await startDaemon(options, layout, parts);
  console.log("The local cluster is ready; its kubectl context is kip-local");
}

/** A cluster that ended without `kip down` is continued, which works in its own network only. */
async function requireSameNetwork(options: OptionValues, layout: LocalLayout): Promise<void> {
  const before = await readRecord(layout.daemonRecord);
  if (!before) return;
  const { namespaceName, networkRange } = before;
  if (
    namespaceName === options.required("namespace-name") &&
    networkRange === options.required("network-range")
  )
    return;
  throw new KipError(
    "LOCAL_CLUSTER_FAILED",
    `Cannot start the local cluster: the one before it has another network, ${networkRange} in namespace ${namespaceName}`,
    {
      remedy: `Run kip down first, or give --namespace-name=${namespaceName} --network-range=${networkRange}`,
    },
  );
}

async function endLeftovers(layout: LocalLayout): Promise<void> {
  const ended = await endProcesses(layout.stateDir, 10_000);
  if (ended > 0) console.log(`Ended ${ended} processes of an interrupted run`);
}

interface Parts {
  readonly binariesDir: string;
  readonly imageId: string;
  readonly demoLayout: string;
}

/** Binaries and images, from the cache or made now. The two do not need each other, so they run side by side. */
async function obtainParts(options: OptionValues, layout: LocalLayout): Promise<Parts> {
  const stop = new AbortController();
  const onInterrupt = (): void => stop.abort(new Error("Interrupted"));
  process.once("SIGINT", onInterrupt).once("SIGTERM", onInterrupt);
  const began = performance.now();
  const onProgress = (message: string): void => {
    console.log(`[${((performance.now() - began) / 1000).toFixed(0).padStart(3)} s] ${message}`);
  };
  const { cacheDir } = layout;
  const release = findRelease(options.required("kubernetes"));
  const userDir = options.text("binaries-dir");
  const common = { cacheDir, onProgress, logger: silentLogger, signal: stop.signal };
  try {
    const [binaries, image, demo] = await Promise.all([
      obtainBinaries({ ...common, release, userDir, env: process.env }),
      buildCellImage({
        ...common,
        refresh: options.isSet("refresh-image"),
        agentEntry: path.join(import.meta.dirname, "../../../itzo/src/main.ts"),
      }),
      buildDemoImage(common),
    ]);
    return { binariesDir: binaries.directory, imageId: image.id, demoLayout: demo.layoutDir };
  } catch (error) {
    stop.abort(error);
    throw error;
  } finally {
    process.removeListener("SIGINT", onInterrupt).removeListener("SIGTERM", onInterrupt);
  }
}

async function startDaemon(
  options: OptionValues,
  layout: LocalLayout,
  parts: Parts,
): Promise<void> {
  await mkdir(layout.logDir, { recursive: true, mode: 0o700 });
  const log = openSync(layout.daemonLog, "a", 0o600);
  const passed = [
    "port",
    "registry-port",
    "network-range",
    "namespace-name",
    "node-name",
    "templates",
  ].map((flag) => `--${flag}=${options.required(flag)}`);
  const settings = options.text("settings");
  if (settings !== undefined) passed.push(`--settings=${path.resolve(settings)}`);
  const child = spawn(
    process.execPath,
    [
      path.join(import.meta.dirname, "..", "main.ts"),
      "local-daemon",
      `--state-dir=${layout.stateDir}`,
      `--cache-dir=${layout.cacheDir}`,
      `--binaries-dir=${parts.binariesDir}`,
      `--image=${parts.imageId}`,
      `--demo-layout=${parts.demoLayout}`,
      `--kubeconfig=${userKubeconfig(options)}`,
      ...passed,
      ...options.list("host-port").map((port) => `--host-port=${port}`),
    ],
    {
      detached: true,
      stdio: ["ignore", log, log, "ipc"],
      env: { ...process.env, [markerVariable]: layout.stateDir },
    },
  );
  closeSync(log);
  await new Promise<void>((resolve, reject) => {
    child.on("message", (message: DaemonMessage) => {
      if (message.kind === "progress") console.log(message.text);
      else if (message.kind === "ready") resolve();
      else
        reject(
          new KipError("LOCAL_CLUSTER_FAILED", message.message, {
            remedy: message.remedy ?? `See ${layout.daemonLog}`,
          }),
        );
    });
    child.on("error", reject);
    child.on("exit", (code, signal) => {
      const how = signal ?? `exit code ${code}`;
      reject(
        new KipError(
          "LOCAL_CLUSTER_FAILED",
          `Cannot start the local cluster: its daemon ended (${how})`,
          { remedy: `See ${layout.daemonLog}` },
        ),
      );
    });
  });
  if (child.connected) child.disconnect();
  child.unref();
}

/** The kubeconfig of the person who called, also through sudo. */
export function userKubeconfig(options: OptionValues): string {
  const given = options.text("kubeconfig");
  if (given !== undefined) return path.resolve(given);
  const fromEnv = process.env["KUBECONFIG"]?.split(":").find((each) => each !== "");
  if (fromEnv !== undefined) return path.resolve(fromEnv);
  // HOME may be empty or relative, and the file is used later from another folder.
  const home = path.isAbsolute(homedir()) ? homedir() : userInfo().homedir;
  return path.join(homeOf(process.env["SUDO_USER"]) ?? home, ".kube", "config");
}

/** Also of a user whom only a directory service knows. */
function homeOf(user: string | undefined): string | undefined {
  if (user === undefined || user === userInfo().username) return undefined;
  const { stdout } = spawnSync("getent", ["passwd", user], { encoding: "utf8" });
  const home = stdout?.trim().split(":")[5];
  return home === undefined || home === "" ? undefined : home;
}
