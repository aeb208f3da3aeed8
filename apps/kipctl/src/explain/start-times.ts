import { startPhases, type Cell } from "@kip/kip/cell";

type StartMs = NonNullable<NonNullable<Cell["status"]>["startMs"]>;

/** Descriptions of the phases of a start. */
const phaseTexts: Readonly<Record<(typeof startPhases)[number], string>> = {
  api: "until the Cell was written",
  cloud: "until the cloud had the instance running",
  boot: "until its agent answered",
  dial: "until kip was connected",
  pull: "images fetched",
  unpack: "images unpacked",
  start: "containers started",
};

/** Length of the longest bar, characters. */
const barWidth = 20;

/** The phases of a start in order, each with a bar for its share of the total, and the sum. */
export function startTimeLines(startMs: StartMs): readonly string[] {
  const known = startPhases.filter((phase) => startMs[phase] !== undefined);
  const longest = Math.max(1, ...known.map((phase) => startMs[phase] ?? 0));
  const total = known.reduce((sum, phase) => sum + (startMs[phase] ?? 0), 0);
  const lines = known.map((phase) => {
    const ms = startMs[phase] ?? 0;
    const bar = "#".repeat(Math.round((ms / longest) * barWidth)).padEnd(barWidth);
    return `${phase.padEnd(6)} ${secondsText(ms)}  ${bar}  ${phaseTexts[phase]}`;
  });
  return [...lines, `${"total".padEnd(6)} ${secondsText(total)}`];
}

function secondsText(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`.padStart(9);
}
