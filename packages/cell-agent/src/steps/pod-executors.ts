import type { Executors } from "@kip/reconcile";
import type { PodStepArgs } from "../state/plan.ts";
import type { PodChange } from "../state/pod-change.ts";
import type { PodState } from "../state/pod-state.ts";
import { expire } from "./expire.ts";
import { hold } from "./hold.ts";
import { network } from "./network.ts";
import { noteExit } from "./note-exit.ts";
import { prepare } from "./prepare.ts";
import { probe } from "./probe.ts";
import { pull } from "./pull.ts";
import { refresh } from "./refresh.ts";
import { release } from "./release.ts";
import { resize } from "./resize.ts";
import { start } from "./start.ts";
import { discard, type StepTools } from "./step-tools.ts";
import { stop } from "./stop.ts";
import { watchDisk } from "./watch-disk.ts";

/** The executor of each step, with the tools that are available when it runs. */
export function podExecutors(tools: () => StepTools): Executors<PodStepArgs, PodState, PodChange> {
  return {
    prepare: async (step, context) => await prepare(step, context, tools()),
    refresh: async (step, context) => await refresh(step, context, tools()),
    network: async (step, context) => await network(step, context, tools()),
    watchDisk: async (step, context) => await watchDisk(step, context, tools()),
    resize: async (step, context) => await resize(step, context, tools()),
    release: async (step, context) => await release(step, context, tools()),
    expire: async (step, context) => await expire(step, context, tools()),
    pull: async (step, context) => await pull(step, context, tools()),
    hold: async (step, context) => await hold(step, context, tools()),
    start: async (step, context) => await start(step, context, tools()),
    stop: async (step, context) => await stop(step, context, tools()),
    probe: async (step, context) => await probe(step, context, tools()),
    noteExit: async (step, context) => await noteExit(step, context, tools()),
    discard: async ({ runId }) => {
      // Save the state first, because this removes what the runtime knows of the end.
      await tools().save();
      await discard(runId, tools());
      return { kind: "discarded", runId };
    },
  };
}
