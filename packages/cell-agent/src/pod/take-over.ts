import fs from "node:fs/promises";
import { namesIn } from "@kip/base";
import { hasFiles } from "../container/start-container.ts";
import type { ContainerState } from "@kip/oci-runtime";
import type { ContainerRun, SavedContainer } from "../state/container-record.ts";
import type { FoundContainer, PodChange } from "../state/pod-change.ts";
import type { PodState } from "../state/pod-state.ts";
import { discard, type StepTools } from "../steps/step-tools.ts";

/** Checks what an earlier process of the agent has left. Continues with what is running, and removes the rest. */
export async function takeOver(state: PodState, tools: StepTools): Promise<PodChange> {
  const { runtime } = tools.dependencies;
  const states = new Map((await runtime.list()).map((one) => [one.id, one]));
  const found = new Map<string, FoundContainer>();
  const runs = new Set<string>();
  for (const [name, { saved }] of state.containers) {
    await removeOldLogs(saved, tools);
    if (!saved.run) continue;
    runs.add(saved.run.id);
    const one = await look(saved.run, states.get(saved.run.id), tools);
    if (one) found.set(name, one);
    states.delete(saved.run.id);
  }
  for (const id of states.keys()) await removeStray(id, tools);
  const { containers, subPaths } = tools.directories;
  const left = [...states.keys(), ...(await namesIn(containers)), ...(await namesIn(subPaths))];
  return { kind: "takenOver", found, leftovers: left.filter((id) => !runs.has(id)) };
}

/** Removes logs other than those of the present run and the one before, in case the agent was about to do that. */
async function removeOldLogs(
  { name, run, previousLogDirectory }: SavedContainer,
  { directories, logger }: StepTools,
): Promise<void> {
  const kept = new Set([run?.logDirectory, previousLogDirectory]);
  const directory = `${directories.logs}/${name}`;
  const old = (await namesIn(directory)).map((each) => `${directory}/${each}`);
  for (const log of old.filter((each) => !kept.has(each))) {
    try {
      await fs.rm(log, { recursive: true, force: true });
    } catch (error) {
      logger.warn("Could not remove a log", { log, err: error });
    }
  }
}

async function look(
  run: ContainerRun,
  state: ContainerState | undefined,
  tools: StepTools,
): Promise<FoundContainer | undefined> {
  if (run.exit) {
    // The agent may have ended before it had removed everything.
    if (state || hasFiles(tools.directories, run)) await discard(run.id, tools);
    return undefined;
  }
  if (state?.status === "running")
    return { kind: "running", startedAtMs: state.startedAtMs ?? state.createdAtMs };
  if (state?.status === "exited" && state.exit) return { kind: "exited", exit: state.exit };
  if (state?.status === "created" || run.startedAtMs === undefined) {
    await discard(run.id, tools); // it will be started again
    return undefined;
  }
  const finishedAtMs = tools.clock.now();
  const exit = { id: run.id, exitCode: 255, oomKilled: false, finishedAtMs, lost: true };
  return { kind: "exited", exit };
}

/** A container that cannot be removed must not prevent the pod from ending. */
async function removeStray(id: string, { dependencies, logger }: StepTools): Promise<void> {
  try {
    await dependencies.runtime.remove(id);
  } catch (error) {
    logger.error("Could not remove a container", { containerId: id, err: error });
  }
}
