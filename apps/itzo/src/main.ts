// The agent of a cell. PID 1 restarts it when it ends, while containers keep running.
import { readFileSync, writeFileSync, writeSync } from "node:fs";
import { decodeCellIdentity } from "@kip/agent-api";
import { createLogger, systemClock } from "@kip/base";
import {
  agentDirectories,
  collectGarbage,
  loadDependencies,
  rehearse,
  startAgent,
  type AgentDependencies,
} from "@kip/cell-agent";
import { ImdsClient } from "@kip/cloud-init";
import manifest from "../package.json" with { type: "json" };
import { readBootResults, type BootResults } from "./boot-results.ts";
import { boundedLog } from "./bounded-log.ts";
import { applySeedOnce, hasEc2Metadata, isTemplate } from "./first-boot.ts";
import { fetchImagesArgument } from "./fetch-images-argument.ts";
import type { TemplateCopy } from "./template.ts";

/** Where the image's boot script leaves its results, on a tmpfs. */
const bootDirectory = "/run/kip";
const stateDir = "/var/lib/itzo";
const runDir = "/run/itzo";
const logFile = "/var/log/itzo.log";
/**
 * Delay after the start of the pod's first container, milliseconds. The agent then collects the garbage of its own start, which
 * is 5 MB.
 */
const garbageDelayMs = 10_000;

const logger = createLogger({
  level: "info",
  write: boundedLog({
    // Write directly to the descriptor, because creating the stream `process.stderr` takes some milliseconds at every start.
    write: (text) => void writeSync(2, text),
    file: logFile,
    maxBytes: 4 * 2 ** 20,
  }),
});

async function main(): Promise<void> {
  protectFromOutOfMemory();
  const copy = isTemplate(bootDirectory) ? await becomeCopy() : undefined;
  const { timingsMs, startedAtMs } = copy?.boot ?? (await bootedResults());
  const identity: unknown = JSON.parse(readFileSync(`${stateDir}/identity.json`, "utf8"));
  const agent = await startAgent({
    identity: decodeCellIdentity(identity, "identity.json"),
    agentVersion: manifest.version,
    stateDir,
    runDir,
    bootTimingsMs: timingsMs,
    startedAtMs,
    readMetadata: hasEc2Metadata(bootDirectory) ? readMetadata() : undefined,
    logger,
    loadDependencies: copy && (async () => await Promise.resolve(copy.loaded)),
  });
  copy?.sendReady();
  process.once("SIGTERM", () => {
    void agent[Symbol.asyncDispose]().finally(() => process.exit(0));
  });
  // A template has set the flags and collected its garbage at its start.
  if (copy) return;
  await agent.ready.then(interpretOnly);
  await agent.running;
  // Do not delay the pod's start.
  await systemClock.sleep(garbageDelayMs);
  collectGarbage();
}

/** Reads this machine's EC2 metadata. */
function readMetadata(): (path: string, signal: AbortSignal) => Promise<string | undefined> {
  const client = new ImdsClient();
  return async (path, signal) => await client.readText(path, { signal });
}

/**
 * Makes the kernel kill any container before the agent, even those of a guaranteed pod (-997). Otherwise nothing would be left
 * to end such a pod. Child processes of the agent inherit the value. crun sets that of containers.
 */
function protectFromOutOfMemory(): void {
  try {
    writeFileSync("/proc/self/oom_score_adj", "-999");
  } catch (err) {
    logger.warn("Could not protect the agent from a lack of memory", { err });
  }
}

async function bootedResults(): Promise<BootResults> {
  const results = await readBootResults(bootDirectory);
  await applySeedOnce({ directory: bootDirectory, logger });
  return results;
}

/** Modules that only templates need are loaded only here. */
async function becomeCopy(): Promise<TemplateCopy<AgentDependencies>> {
  const { serveAsTemplate } = await import("./template.ts");
  const directories = agentDirectories(stateDir, runDir);
  return await serveAsTemplate({
    directory: bootDirectory,
    logFile,
    load: async () => {
      await rehearse({ stateDir, runDir, hostInterface: "eth0", logger, clock: systemClock });
      const parts = await loadDependencies({
        directories,
        logger,
        clock: systemClock,
        preparesRules: true,
      });
      await parts.prepared;
      return parts;
    },
    logger,
  });
}

/**
 * Turns off the compilers of V8. An agent mostly waits, and does everything once or twice. Compiling that takes longer under
 * emulation than it saves, and the compilers' pages are 5 MB of the agent's memory. Work on many bytes (hashes, inflating, TLS)
 * is native code anyway. This also turns off garbage collection after 8 s without activity, which takes longer than everything
 * else that an idle agent does. The heap is collected once, when the pod has started.
 *
 * Call this after all modules are loaded. With other flags, V8 refuses the compiled code of Node's own modules.
 */
function interpretOnly(): void {
  const { setFlagsFromString } = process.getBuiltinModule("node:v8");
  for (const flag of ["--no-opt", "--no-maglev", "--no-sparkplug", "--no-memory-reducer"])
    setFlagsFromString(flag);
}

/** Each process of this program only loads the modules that it needs. */
async function run(): Promise<void> {
  switch (process.argv[2]) {
    case fetchImagesArgument: {
      const { runFetchImages } = await import("./fetch-images-process.ts");
      return await runFetchImages(stateDir, runDir);
    }
    case "cloud-init": {
      const { runCloudInit } = await import("./cloud-init-command.ts");
      process.exitCode = await runCloudInit(process.argv.slice(3), {
        version: manifest.version,
        out: (text) => void writeSync(1, text),
        err: (text) => void writeSync(2, text),
      });
      return;
    }
    default:
      return await main();
  }
}

// No top-level await, because the image contains this program as one CommonJS file.
run().catch((err: unknown) => {
  logger.error("Agent failed", { err });
  process.exitCode = 1;
});
