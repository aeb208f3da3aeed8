import { stripVTControlCharacters } from "node:util";
import { errorText, untilAborted } from "@kip/base";
import { wasClaimed, type CellState } from "../../state/cell-state.ts";
import type { CellContext } from "../cell-step.ts";
import type { CellTools } from "./step-context.ts";

/** How much of a console is read, bytes. */
const readBytes = 8192;
/** How much of the console an event shows, bytes. The API allows 1024 bytes, some of which the sentence before needs. */
const shownBytes = 700;
const shownLines = 12;

/**
 * Reports an event with the last lines of the machine's console, if the machine ends before its agent has responded. Call this
 * while the instance exists. Never throws, except for the signal's reason.
 */
export async function reportBootFailure(tools: CellTools, context: CellContext): Promise<void> {
  const { driver, onProblem, logger } = tools;
  const { podRef, machine } = context.state();
  if (!hasFailedToBoot(context.state()) || !machine.instance) return;
  const { id, stateReason } = machine.instance;
  const what = `Instance "${id}" ended before its agent answered`;
  const why = stateReason === undefined ? what : `${what}: ${stateReason}`;
  try {
    const console = driver.consoleOutput(id, readBytes);
    const lines = lastLines(await untilAborted(console, context.signal));
    const shown = lines === "" ? "Its console is empty" : `The end of its console:\n${lines}`;
    onProblem(podRef.uid, "CellBootFailed", `${why}. ${shown}`);
  } catch (error) {
    context.signal.throwIfAborted();
    logger.warn("Could not read the console of a machine", { instance: id, err: error });
    onProblem(podRef.uid, "CellBootFailed", `${why}. ${errorText(error)}`);
  }
}

/** Whether the cell is given up although its agent never responded and its pod still needs it. */
function hasFailedToBoot({ pod, cell, machine, agent, end }: CellState): boolean {
  const isWanted = pod.wanted.kind === "run" && !end.isPodFinished && !cell.isDeleted;
  const { phase } = cell.status;
  const hasAnswered = agent.connectedAt !== undefined || agent.client !== undefined;
  const isNew = phase === "Pending" || phase === "Launching" || phase === "Booting";
  return isWanted && isNew && !wasClaimed(cell.status) && !hasAnswered && !machine.interruption;
}

/** The end of a console as text for an event: whole lines, without terminal control sequences. */
export function lastLines(text: string): string {
  const lines = stripVTControlCharacters(text)
    .replaceAll(/[^\P{Cc}\n]|\p{Cf}/gu, "")
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "")
    .slice(-shownLines);
  let shown = "";
  for (const line of lines.reverse()) {
    const next = shown === "" ? line : `${line}\n${shown}`;
    if (Buffer.byteLength(next) > shownBytes) break;
    shown = next;
  }
  // A single line may be too long.
  return shown === ""
    ? Buffer.from(lines[0] ?? "")
        .subarray(-shownBytes)
        .toString()
    : shown;
}
