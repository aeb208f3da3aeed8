import { defined } from "@kip/base";
import { waitForAgentPort, type CellIdentity } from "@kip/agent-api";
import { CloudError, type Instance, type LaunchRequest, type LaunchWait } from "@kip/cloud";
import { problemOf } from "../../errors.ts";
import { covers, describeScope, type ShortScope } from "../../selection/shortages.ts";
import { launchTypesOf } from "../../annotations/read-annotations.ts";
import type { CellChange } from "../../state/cell-change.ts";
import { isInUse, wasClaimed, type CellState } from "../../state/cell-state.ts";
import { isStandby, type CellStatus } from "../../state/cell.ts";
import type { CellContext } from "../cell-step.ts";
import { cellOf, required, setTransientStatus, setStatus, type CellTools } from "./step-context.ts";
import { isAllowed, isOutdated, mayBeOnDemand, passTurn, placementOf } from "./choose-cell.ts";
import { untilStandby } from "./standby-machine.ts";
import { instanceTags } from "./instance-tags.ts";
import { userData } from "./user-data.ts";

/**
 * Looks up the Cell's instance in the cloud, after a start of kip or a lost response. A Cell that has its pod also had an
 * instance, even if kip ended before it recorded which one. Another one must not be launched for it, because the pod may have
 * run.
 */
export async function observeInstance(tools: CellTools, context: CellContext): Promise<CellChange> {
  const { driver, instances, shortages } = tools;
  const { metadata, spec } = cellOf(context);
  const { uid } = metadata;
  const { status } = context.state().cell;
  const { instanceID: id } = status;
  const instance =
    id === undefined
      ? (await instances.get()).find((each) => each.token === uid)
      : await driver.describe(id);
  if (!instance) {
    const hadInstance = id !== undefined || wasClaimed(status);
    if (hadInstance && mayAppear(tools, context))
      throw new CloudError(
        "CLOUD_UNAVAILABLE",
        "Cannot tell whether the instance has ended: it was launched so recently that the cloud may not show it yet",
      );
    return { kind: "machine", state: hadInstance ? "gone" : "none" };
  }
  if (id === undefined) {
    shortages.accepted(placementOf(tools, spec), context.state().podRef.uid); // the response was lost
    setStatus(tools, context, { instanceID: instance.id });
  }
  return { kind: "machineSeen", instance };
}

/**
 * Whether an instance of an earlier process of kip is so young that the cloud may not list it yet. The clock may have been set
 * since.
 */
function mayAppear({ driver, clock }: CellTools, context: CellContext): boolean {
  const { cell, machine } = context.state();
  if (machine.instance) return false;
  const launched = cell.status.conditions?.find((each) => each.type === "Launched");
  const { creationTimestamp } = cellOf(context).metadata;
  const since = launched?.status === "True" ? launched.lastTransitionTime : creationTimestamp;
  return Math.abs(clock.now() - Date.parse(since ?? "")) < (driver.consistencyMs ?? 0);
}

/** Errors of a launch that may be due to the pod's annotations or the configuration. Nothing was started. */
const mistakes = ["CLOUD_INVALID_REQUEST", "CLOUD_NOT_FOUND", "CLOUD_AUTH"] as const;

/**
 * Asks the cloud for the instance. Repeating it finds the instance that was started. If the cloud has no capacity for it, that
 * is remembered for all pods, and the pod gets another Cell. It also does if its Cell has a mistake that was corrected since.
 * If the cloud asks for fewer launches, waits its turn, or until the pod would get another machine.
 */
export async function launch(
  tools: CellTools,
  context: CellContext,
): Promise<CellChange | undefined> {
  const { onEvent, shortages, clock } = tools;
  const { change, state } = context;
  const began = clock.monotonic();
  let launched: LaunchedInstance;
  try {
    launched = await launchInTurn(tools, context);
  } catch (error) {
    if (CloudError.is(error, "CLOUD_NO_CAPACITY", "CLOUD_QUOTA"))
      return refused(tools, context, error);
    passTurn(tools, context, error);
    const isGivenUp = CloudError.is(error, ...mistakes) && (await isOutdated(tools, context));
    change(isGivenUp ? { kind: "refused" } : { kind: "machine", state: "unknown", isAsked: true });
    // Also if it is given up: a success would have the launches of other pods repeated.
    throw error;
  }
  const { instance, expires } = launched;
  shortages.accepted(placementOf(tools, cellOf(context).spec), state().podRef.uid);
  change({ kind: "launched", instance, cloudMs: clock.monotonic() - began });
  setTransientStatus(tools, context, {
    phase: "Launching",
    instanceID: instance.id,
    identityExpires: expires.toISOString(),
  });
  const { name } = cellOf(context).metadata;
  const message = `Instance "${instance.id}" (${instance.instanceType}) was started for Cell "${name}"`;
  onEvent(state().podRef.uid, "CellLaunched", message);
  return undefined;
}

interface LaunchedInstance {
  readonly instance: Instance;
  /** When the instance's identity expires. */
  readonly expires: Date;
}

async function launchInTurn(tools: CellTools, context: CellContext): Promise<LaunchedInstance> {
  const { driver, identities, pace, shortages, clock } = tools;
  const { change, signal } = context;
  const { metadata, spec } = cellOf(context);
  const { instanceType, launchType } = spec;
  const createdAt = Date.parse(createdAtOf(context) ?? "") || clock.now();
  const done = new AbortController();
  const until = AbortSignal.any([signal, done.signal]);
  const hasStandby = new AbortController();
  let standby: Promise<void> | undefined;
  const watchStandby = async (): Promise<void> => {
    if (await untilStandby(tools, context, until)) hasStandby.abort();
  };
  const onWait = (error: CloudError, inMs: number): void => {
    const { reason, message } = problemOf(error);
    const when = `Kip asks again in ${Math.ceil(inMs / 1000)} seconds`;
    change({ kind: "waits", reason, message: `${message}. ${when}` });
    if (!CloudError.is(error, "CLOUD_QUOTA")) return;
    if (standby) return;
    standby = watchStandby();
    // Whether there is capacity may only show when the quota is raised. A pod that waits for its other choice would get the turn back.
    if (!otherType) shortages.passed(context.state().podRef.uid);
    outdated.look(); // the pod may have changed since its Cell was created
  };
  const outdated = whenOutdated(tools, context, until);
  const otherType = await otherWay(tools, context, until);
  const other = AbortSignal.any([
    hasStandby.signal,
    outdated.signal,
    ...(otherType ? [otherType] : []),
  ]);
  const futile = whenShort(tools, context, until);
  const asked = { instanceType, launchType, createdAt, onWait, other, futile, signal };
  try {
    return await pace.run(asked, async () => {
      // Issued for each attempt, so that it does not age while the launch waits.
      const { identity, expires } = await identities.issueForCell(metadata.name);
      const instance = await driver.launch(launchRequest(tools, context, identity), signal);
      return { instance, expires };
    });
  } finally {
    done.abort();
  }
}

/**
 * Aborts with the refusal when another pod's launch shows that there is no capacity for this one, possibly while the Cell was
 * being written. Otherwise each of many such launches would take its turn while the cloud throttles, and others would wait for
 * theirs. Not if the cloud may have started the instance already: a repeated launch finds it.
 */
function whenShort(
  { shortages, driver }: CellTools,
  context: CellContext,
  signal: AbortSignal,
): AbortSignal {
  const short = new AbortController();
  const { cell, machine, podRef } = context.state();
  const mayBeStarted = cell.startMs.api === undefined || machine.isAsked === true;
  if (mayBeStarted || isStandby(cellOf(context))) return short.signal;
  const launch = { podUid: podRef.uid, placement: placementOf({ driver }, cellOf(context).spec) };
  const refuse = (scope: ShortScope): void => {
    const message = `Cannot start a machine: there is no capacity of ${describeScope(scope)}`;
    short.abort(new CloudError("CLOUD_NO_CAPACITY", message, { scope }));
  };
  const known = shortages.shortageOf(launch.placement);
  if (known) refuse(known);
  else shortages.untilShort(launch, signal).then(refuse, () => {}); // this launch is over
  return short.signal;
}

/**
 * Aborts when the pod or the configuration changes so that the pod would get another machine now, or could have one on demand
 * instead of a spot machine above its quota. This is checked for one pod after the other, because a new configuration concerns all
 * pods that wait, possibly thousands.
 */
function whenOutdated(
  tools: CellTools,
  context: CellContext,
  signal: AbortSignal,
): { readonly signal: AbortSignal; readonly look: () => void } {
  const { state, onReplanned } = context;
  const { namespace } = state().podRef;
  const outdated = new AbortController();
  const check = (use: () => Promise<boolean>): void => {
    const make = () => ({ document: undefined, bytes: 0 });
    tools.sizeChecks.send({ namespace, bytes: 0 }, { make, use }, signal).then(
      (isNow) => {
        if (isNow === true) outdated.abort();
      },
      () => {}, // this launch goes on
    );
  };
  const mayLeave = async (): Promise<boolean> => await mayLeaveSpot(tools, context);
  let { resolved } = state().pod;
  let settings = tools.settings();
  onReplanned(() => {
    if (state().pod.resolved === resolved && tools.settings() === settings) return;
    ({ resolved } = state().pod);
    settings = tools.settings();
    check(async () => (await isOutdated(tools, context)) || (await mayLeave()));
  });
  // The result must not depend on shortages, because a new Cell would be looked at again.
  const look = (): void =>
    check(async () => !(await isAllowed(tools, context)) || (await mayLeave()));
  return { signal: outdated.signal, look };
}

/** Whether a pod that is to get a spot machine may have one on demand. */
async function mayLeaveSpot(tools: CellTools, context: CellContext): Promise<boolean> {
  const { object } = context.state().pod;
  const isSpot = cellOf(context).spec.launchType === "spot";
  return isSpot && object !== undefined && (await mayBeOnDemand(tools, object));
}

/**
 * Aborts when a pod that may have a spot machine or one on demand should be given the other one if this one is above a quota. A
 * spot machine is the first choice: it is tried again when its shortage ends.
 */
async function otherWay(
  tools: CellTools,
  context: CellContext,
  signal: AbortSignal,
): Promise<AbortSignal | undefined> {
  const { shortages, chooser, clock } = tools;
  const { object } = context.state().pod;
  if (!object || !launchTypesOf(object).includes("spot")) return undefined;
  if (cellOf(context).spec.launchType === "spot")
    return (await mayLeaveSpot(tools, context)) ? AbortSignal.abort() : undefined;
  // No machine fits a pod that was resized beyond all of them.
  const best = await chooser.placementOf(object, []).catch(() => undefined);
  if (best?.launchType !== "spot") return undefined;
  const { uid: podUid } = context.state().podRef;
  const scopes = shortages.inForce(podUid).filter((scope) => covers(scope, best));
  if (scopes.length === 0) return AbortSignal.abort();
  const other = new AbortController();
  const createdAt = Date.parse(createdAtOf(context) ?? "") || clock.now();
  void shortages.untilTurn({ podUid, createdAt, scopes }, signal).then(
    () => other.abort(),
    () => {}, // this launch is over
  );
  return other.signal;
}

/** After all pods. */
const standbyCreatedAt = "9999-12-31T23:59:59Z";

/** A pod that the cloud had no capacity for keeps its place, although its Cell is new. */
function createdAtOf(context: CellContext): string | undefined {
  if (isStandby(cellOf(context))) return standbyCreatedAt;
  const { object } = context.state().pod;
  return object?.metadata.creationTimestamp ?? cellOf(context).metadata.creationTimestamp;
}

function refused(tools: CellTools, context: CellContext, error: CloudError): CellChange {
  const { shortages, onProblem, logger } = tools;
  const { podRef } = context.state();
  const placement = placementOf(tools, cellOf(context).spec);
  const { code, retryAfterMs } = error;
  const { launchType } = placement;
  // The cloud does not report which types share a spot quota.
  const scope = code === "CLOUD_QUOTA" ? { launchType, isQuota: true } : error.scope;
  const { reason, message } = problemOf(error);
  onProblem(podRef.uid, reason, message);
  // Do not remember it as a shortage: the cloud may still have capacity for a pod, which takes precedence over standby cells.
  if (isStandby(cellOf(context))) return { kind: "refused" };
  // Nor is a quota of machines on demand, for which launches wait in their turn.
  if (code === "CLOUD_QUOTA" && launchType !== "spot") return { kind: "refused" };
  shortages.refused({ podUid: podRef.uid, placement, scope, retryAfterMs });
  logger.info("The cloud had no capacity for a machine", {
    podUid: podRef.uid,
    ...placement,
    scope,
  });
  return { kind: "refused" };
}

function launchRequest(
  tools: CellTools,
  context: CellContext,
  identity: CellIdentity,
): LaunchRequest {
  const cell = cellOf(context);
  const { metadata, spec } = cell;
  return defined({
    token: metadata.uid,
    name: metadata.name,
    instanceType: spec.instanceType,
    launchType: spec.launchType,
    zone: spec.zone,
    image: spec.image,
    rootDiskBytes: spec.rootDiskBytes,
    userData: userData(identity, tools.settings().cloudInit),
    images: launchImages(tools, context.state()),
    createdAt: createdAtOf(context),
    onWait: isStandby(cell)
      ? undefined
      : ({ message, isTurn }: LaunchWait) =>
          context.change({ kind: "waits", reason: "CellWaits", message, isTurn }),
    privateIpOnly: spec.privateIPOnly,
    instanceProfile: spec.instanceProfile,
    securityGroups: spec.securityGroups,
    routes: spec.routes,
    tags: instanceTags(tools, context),
  });
}

/** Tells the cloud which images the pod runs, because similar pods may follow. */
export function prepareImages(tools: CellTools, context: Pick<CellContext, "state">): void {
  const { instanceType, image, rootDiskBytes } = cellOf(context).spec;
  const images = launchImages(tools, context.state());
  if (images) tools.driver.prepareImages?.({ instanceType, image, rootDiskBytes, images });
}

/** The images that the cloud may have prepared on this pod's machine. */
function launchImages(
  { knownImages, settings }: CellTools,
  { pod }: CellState,
): LaunchRequest["images"] {
  const { registries, images } = settings();
  return pod.resolved && knownImages.imagesOf(pod.resolved, { registries, proxy: images?.proxy });
}

/** Waits until the instance is running and has its addresses. */
export async function awaitRunning(
  tools: CellTools,
  context: CellContext,
): Promise<CellChange | undefined> {
  const { driver, clock } = tools;
  const { change, signal, state } = context;
  const began = clock.monotonic();
  const { id } = required(state().machine.instance, "there is no instance");
  let instance: Instance;
  try {
    instance = await orUnknown(context, () =>
      driver.waitForRunning(id, signal, async (address, until) => {
        await waitForAgentPort({ address, signal: until });
      }),
    );
  } catch (error) {
    // Some clouds accept a launch first, and then end the instance.
    if (CloudError.is(error, "CLOUD_NO_CAPACITY")) return refused(tools, context, error);
    throw error;
  }
  change({ kind: "running", instance, cloudMs: clock.monotonic() - began });
  // The cloud may have shown an older state of an instance that has its pod: its end must not skip the pod's grace period.
  const phase = isInUse(state().cell.status.phase) ? {} : ({ phase: "Booting" } as const);
  setTransientStatus(tools, context, { ...phase, ...instanceFacts(instance) });
  return undefined;
}

/**
 * Makes a request whose response may be lost. After a failure, the instance is looked up, because the request may have
 * succeeded.
 */
async function orUnknown<T>({ change }: CellContext, request: () => Promise<T>): Promise<T> {
  try {
    return await request();
  } catch (error) {
    change({ kind: "machine", state: "unknown" });
    throw error;
  }
}

/** The parts of a Cell's status that describe its instance. */
export function instanceFacts(
  instance: Instance | undefined,
): Pick<CellStatus, "ip" | "podIP" | "startedFrom"> {
  const { managementIp: ip, podIp: podIP, startedFrom } = instance ?? {};
  return defined({ ip, podIP, startedFrom });
}
