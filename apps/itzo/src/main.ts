// The agent of a cell. PID 1 starts it again when it ends; containers live on without it.
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

/** Where the boot script of the image leaves its results, on a tmpfs. */
const bootDirectory = "/run/kip";
const stateDir = "/var/lib/itzo";
const runDir = "/run/itzo";
const logFile = "/var/log/itzo.log";
/** How long after the start of the pod's first container the agent collects what its own start has left: 5 MB. */
const garbageDelayMs = 10_000;

const logger = createLogger({
  level: "info",
  write: boundedLog({
    // Straight to the descriptor: making the stream that is `process.stderr` would cost every start some milliseconds.
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
  // A template has had the flags since its start, and has collected its garbage.
  if (copy) return;
  await agent.ready.then(interpretOnly);
  await agent.running;
  // What begins with the pod is not held up.
  await systemClock.sleep(garbageDelayMs);
  collectGarbage();
}

/** What EC2 says of this machine. */
function readMetadata(): (path: string, signal: AbortSignal) => Promise<string | undefined> {
  const client = new ImdsClient();
  return async (path, signal) => await client.readText(path, { signal });
}

/**
 * The kernel takes every container before it takes the agent, also those of a guaranteed pod (-997), which would otherwise be those that nothing ends any
 * more. What the agent starts has the same; crun gives containers their own.
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

/** What only templates need is loaded only there. */
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
 * No more machine code from here on: an agent mostly waits, and what it does it does once or twice. Making code for that
 * takes longer under emulation than it saves, and the compilers' pages are 5 MB of the agent's memory. Code that works
 * through many bytes (hashes, inflating, TLS) is native. Nor is the small heap collected whenever nothing has happened for 8 s,
 * which takes longer than everything else that an idle agent does: it is collected once, when the pod has started.
 *
 * Not before all modules are loaded: with other flags V8 refuses the compiled code that Node brings of its own modules.
 */
function interpretOnly(): void {
  const { setFlagsFromString } = process.getBuiltinModule("node:v8");
  for (const flag of ["--no-opt", "--no-maglev", "--no-sparkplug", "--no-memory-reducer"])
    setFlagsFromString(flag);
}

/** What other processes of this program need is loaded by them only. */
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

// No top-level await: the image holds this program as one CommonJS file.
run().catch((err: unknown) => {
  logger.error("Agent failed", { err });
  process.exitCode = 1;
});
