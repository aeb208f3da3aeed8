import { tableText, type Column } from "../output/table.ts";
import type { DumpedWorker, NodeDump } from "./read-dumps.ts";

interface StepRow {
  readonly worker: DumpedWorker;
  /** Undefined if the worker has nothing to do. */
  readonly step: DumpedWorker["steps"][number] | undefined;
}

const columns: readonly Column<StepRow>[] = [
  { name: "NAMESPACE", text: ({ worker: { pod } }) => pod?.namespace },
  { name: "POD", text: ({ worker: { pod } }) => pod?.name },
  { name: "WANTED", text: ({ worker }) => worker.wanted },
  { name: "PHASE", text: ({ worker }) => worker.phase },
  { name: "MACHINE", text: ({ worker }) => worker.machine },
  { name: "AGENT", text: ({ worker }) => (worker.isAgentConnected ? "connected" : "away") },
  { name: "STEP", text: ({ step }) => step?.kind },
  { name: "STATUS", text: ({ step }) => step?.status ?? "idle" },
  { name: "FAILURES", isNumber: true, text: ({ step }) => String(step?.failures ?? 0) },
  {
    name: "NEXT",
    isNumber: true,
    text: ({ worker, step }) => secondsText(step ? step.inMs : worker.wakeInMs),
  },
  { name: "WAITS-FOR", text: ({ worker }) => worker.waitsFor },
];

/** Plans and queues of nodes, for a terminal. Workers with something to do come first. */
export function dumpText(dumps: readonly NodeDump[]): string {
  return dumps.map(nodeText).join("\n");
}

function nodeText({ node, time, admitted, pods, standby, launches }: NodeDump): string {
  const rows = [...pods, ...standby].flatMap((worker): readonly StepRow[] =>
    worker.steps.length === 0
      ? [{ worker, step: undefined }]
      : worker.steps.map((step) => ({ worker, step })),
  );
  const busyFirst = rows.sort((a, b) => Number(!a.step) - Number(!b.step));
  const busy = launches.filter(({ waiting, delayMs }) => waiting > 0 || delayMs > 0);
  return [
    `Node ${node} at ${time}: ${pods.length} pods, ${standby.length} standby cells\n`,
    rows.length === 0 ? "" : tableText(columns, busyFirst),
    admitted.length === 0 ? "" : `Admitted, without a worker yet: ${admitted.join(", ")}\n`,
    ...busy.map(
      ({ of, waiting, delayMs, inMs }) =>
        `Launches of ${of}: ${waiting} wait, one every ${secondsText(delayMs)}, the next in ${secondsText(inMs)}\n`,
    ),
  ].join("");
}

function secondsText(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : `${(ms / 1000).toFixed(1)}s`;
}
