import { startPodSpan, type Tracer } from "@kip/virtual-kubelet/telemetry";
import type { CellChange } from "../../state/cell-change.ts";
import type { CellContext, CellStep, CellSteps, StandbySteps } from "../cell-step.ts";
import { Outages } from "../outages.ts";
import { LaunchPace } from "../../selection/launch-pace.ts";
import { Shortages } from "../../selection/shortages.ts";
import { DocumentPlaces } from "../../dispatch/document-places.ts";
import { KnownImages } from "../../dispatch/launch-images.ts";
import { CellStatusWriter } from "../../store/cell-status-writer.ts";
import { connect } from "./connect-agent.ts";
import { createCell } from "./create-cell.ts";
import { dispatch, lookForProfiles } from "./dispatch-pod.ts";
import { deleteCell, drain, saveLogs, machineEnded, terminate } from "./end-cell.ts";
import { awaitEndInApi, endPod, expire, recordEnd } from "./end-pod.ts";
import { followAgent, keepStandbyIdentity, noteReport } from "./follow-agent.ts";
import { noteReach } from "./note-reach.ts";
import { tagInstance } from "./instance-tags.ts";
import { awaitReplacement, evict } from "./replace-pod.ts";
import { awaitRunning, launch, observeInstance } from "./start-instance.ts";
import { InstanceList } from "./instance-list.ts";
import { noteStatus, type CellTools } from "./step-context.ts";

/** The tools that {@link createCellSteps} makes itself. */
type OwnTools =
  "statuses" | "knownImages" | "documents" | "sizeChecks" | "shortages" | "pace" | "instances";

/** Creates the steps of all cells of one kip, for cells with pods and standby cells. They share their tools. */
export function createCellSteps(options: Omit<CellTools, OwnTools>): CellSteps & {
  readonly standby: StandbySteps;
  readonly launches: Pick<LaunchPace, "dump" | "freed">;
} {
  const statuses = new CellStatusWriter(options);
  const instances = new InstanceList(options);
  const shared = { shortages: new Shortages(options), pace: new LaunchPace(options) };
  const own = { statuses, instances, knownImages: new KnownImages() };
  const places = { documents: new DocumentPlaces(), sizeChecks: new DocumentPlaces() };
  const tools = { ...options, ...shared, ...own, ...places };
  const outages = new Outages(options);
  return {
    executors: traced(tools.tracer, endingOutages(outages, cellExecutors(tools))),
    outages,
    followAgent: async (client, follower) => await followAgent(tools, client, follower),
    noteReport: (context) => noteReport(tools, context),
    noteStatus: (state) => noteStatus(tools, state),
    flush: async () => {
      outages.stop();
      await statuses.flush();
    },
    standby: standbySteps(tools, outages),
    launches: {
      dump: () => shared.pace.dump(),
      freed: () => machineEnded(shared),
    },
  };
}

/** Events of standby cells are dropped, because they have no pod to show them on. */
function standbySteps(tools: CellTools, outages: Outages): StandbySteps {
  const { logger } = tools;
  const onProblem = (_: string, reason: string, message: string): void =>
    logger.warn("A standby cell has a problem", { reason, message });
  const own = { ...tools, standby: undefined, onEvent: () => {}, onProblem };
  return {
    executors: endingOutages(outages, cellExecutors(own)),
    outages,
    noteStatus: (state) => noteStatus(own, state),
    keepIdentity: async (client, follower) => await keepStandbyIdentity(own, client, follower),
  };
}

/** The executor of each kind of step, in the order of a cell's life. Each is safe to repeat. */
function cellExecutors(tools: CellTools): CellSteps["executors"] {
  return {
    createCell: (_step, context) => createCell(tools, context),
    expire: (_step, context) => expire(context),
    observeInstance: (_step, context) => observeInstance(tools, context),
    launch: (_step, context) => launch(tools, context),
    awaitRunning: (_step, context) => awaitRunning(tools, context),
    connect: (_step, context) => connect(tools, context),
    dispatch: (_step, context) => dispatch(tools, context),
    tagInstance: (_step, context) => tagInstance(tools, context),
    lookForProfiles: (_step, context) => lookForProfiles(tools, context),
    evict: (_step, context) => evict(tools, context),
    awaitReplacement: (_step, context) => awaitReplacement(tools, context),
    noteReach: ({ isOutOfReach }, context) => noteReach(tools, context, isOutOfReach),
    drain: ({ graceSeconds }, context) => drain(tools, context, graceSeconds),
    endPod: (_step, context) => endPod(tools, context),
    recordEnd: (_step, context) => recordEnd(tools, context),
    saveLogs: (_step, context) => saveLogs(tools, context),
    terminate: (_step, context) => terminate(tools, context),
    awaitEndInApi: (_step, context) => awaitEndInApi(tools, context),
    deleteCell: ({ isLost }, context) => deleteCell(tools, context, isLost),
  };
}

/** Executors that record their steps as spans of the pod's trace. */
function traced(tracer: Tracer, executors: CellSteps["executors"]): CellSteps["executors"] {
  return wrapped(executors, async (execute, step, context) => {
    const span = startPodSpan(tracer, `cell.${step.kind}`, context.state().podRef);
    try {
      const change = await execute(step, context);
      span.end();
      return change;
    } catch (error) {
      span.end(error);
      throw error;
    }
  });
}

/** Executors whose successes end the pauses of others after an outage. */
function endingOutages(
  outages: Outages,
  executors: CellSteps["executors"],
): CellSteps["executors"] {
  return wrapped(executors, async (execute, step, context) => {
    const change = await execute(step, context);
    outages.succeeded(step.kind);
    return change;
  });
}

type Execute = (step: CellStep, context: CellContext) => Promise<CellChange | undefined>;

/** Executors that are each called through this function. */
function wrapped(
  executors: CellSteps["executors"],
  call: (execute: Execute, step: CellStep, context: CellContext) => ReturnType<Execute>,
): CellSteps["executors"] {
  const each = Object.entries(executors) as [string, Execute][]; // each gets only steps of its own kind
  const wrap = ([kind, execute]: [string, Execute]): [string, Execute] => [
    kind,
    async (step, context) => await call(execute, step, context),
  ];
  return Object.fromEntries(each.map(wrap)) as unknown as CellSteps["executors"]; // the same kinds as before
}
