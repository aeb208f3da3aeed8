import { isCodedError } from "@kip/base";
import { wireTime } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { launchTypesOf } from "../../annotations/read-annotations.ts";
import { ProviderError } from "../../errors.ts";
import { isStandby, type CellSpec, type StandbySpec } from "../../state/cell.ts";
import { grantedResources, withGrantedResources } from "../../selection/granted-resources.ts";
import { isSameMachine } from "../../selection/launch-extras.ts";
import {
  covers,
  describeScope,
  type Placement,
  type ShortScope,
} from "../../selection/shortages.ts";
import type { CellContext } from "../cell-step.ts";
import { bestCell, chooseAmong, isTooSmall } from "./best-cell.ts";
import { untilStandby } from "./standby-machine.ts";
import { required, type CellTools } from "./step-context.ts";

/**
 * The spec of the pod's next Cell: the best machine for which the cloud is not known to lack capacity. If there is none, waits,
 * and reports that on the pod. Tries again at once for a new version of the pod. Undefined if the pod waited and can take a
 * standby cell now.
 *
 * @throws like `CellChooser.choose`; the signal's reason
 */
export async function chooseCell(
  tools: CellTools,
  context: CellContext,
): Promise<CellSpec | undefined> {
  let isNext = wasRefused(context);
  for (;;) {
    const resolved = required(context.state().pod.resolved, "the pod is not known");
    const unavailable = await shortagesFor(tools, resolved.pod);
    const spec = await chooseAvailable(tools, context, { pod: resolved.pod, unavailable });
    if (spec && !isNext) return spec;
    let mayLaunch = false;
    const isStandbyReady = spec
      ? await whileUnchanged(tools, context, resolved, async (signal) => {
          const launch = { podUid: resolved.pod.metadata.uid, placement: placementOf(tools, spec) };
          mayLaunch = await tools.shortages.untilFirst(launch, signal);
        })
      : await waitForCapacity(tools, context, { resolved, unavailable });
    if (isStandbyReady) return undefined;
    if (spec && mayLaunch) return spec;
    isNext &&= spec !== undefined; // it is the pod's turn
  }
}

/** The Cell of a pod with a machine that is not short. Undefined if only machines that are short fit it. */
async function chooseAvailable(
  tools: CellTools,
  context: CellContext,
  among: { readonly pod: Pod; readonly unavailable: readonly ShortScope[] },
): Promise<CellSpec | undefined> {
  try {
    return await chooseAmong(tools, context, among);
  } catch (error) {
    if (among.unavailable.length === 0 || !isNothingLeft(error)) throw error;
    return undefined;
  }
}

/** Whether the pod's last Cell was given up without an instance. */
function wasRefused({ state }: CellContext): boolean {
  const { goneCells, losses } = state().history;
  return goneCells.size > 0 && losses === 0;
}

/** The shortages that count for a pod. Spot quotas only count if the pod may get an on-demand machine instead. */
async function shortagesFor(tools: CellTools, pod: Pod): Promise<readonly ShortScope[]> {
  const all = tools.shortages.inForce(pod.metadata.uid);
  const others = all.filter(({ isQuota }) => isQuota !== true);
  return others.length === all.length || (await mayBeOnDemand(tools, pod)) ? all : others;
}

/** Whether a pod may have an on-demand machine instead of a spot machine, within its price limit. */
export async function mayBeOnDemand({ chooser }: CellTools, pod: Pod): Promise<boolean> {
  if (!launchTypesOf(pod).includes("on-demand")) return false;
  try {
    await chooser.placementOf(pod, [{ launchType: "spot" }]);
    return true;
  } catch (error) {
    // No such machine fits, or the pod's annotations have become invalid.
    if (isNothingLeft(error) || (isCodedError(error) && !error.retryable)) return false;
    throw error;
  }
}

/**
 * Whether the pod would get another machine now than that of its Cell, because the pod or the configuration has changed since,
 * or would wait for one that is short. False if none fits it.
 */
export async function isOutdated(tools: CellTools, context: CellContext): Promise<boolean> {
  const { object } = context.state().cell;
  const { resolved } = context.state().pod;
  if (!object || isStandby(object) || !resolved) return false;
  try {
    const unavailable = await shortagesFor(tools, resolved.pod);
    const available = await chooseAvailable(tools, context, { pod: resolved.pod, unavailable });
    return !isSameMachine(available ?? (await bestCell(tools, context)), object.spec);
  } catch (error) {
    if (isCodedError(error)) return false;
    throw error;
  }
}

/** Whether the pod may have the machine of its Cell. True if none fits it. */
export async function isAllowed(tools: CellTools, context: CellContext): Promise<boolean> {
  const { cell, pod, status } = context.state();
  const { object } = cell;
  if (!object || isStandby(object) || !pod.resolved) return true;
  const placement = placementOf(tools, object.spec);
  try {
    const wanted = await asGranted(tools.chooser, context, pod.resolved.pod);
    // While larger machines are short, a pod that was resized gets one for its previous size.
    const previous = withGrantedResources(wanted, status ?? wanted.status);
    for (const each of [wanted, previous])
      if (await tools.chooser.allows(each, placement)) return true;
    return false;
  } catch (error) {
    if (isCodedError(error)) return true;
    throw error;
  }
}

/**
 * Reports which machines are sold out, and waits until it is the pod's turn to try again, or it can take a standby cell.
 *
 * @returns whether it can take a standby cell
 * @throws if no machine fits the pod at all
 */
async function waitForCapacity(
  tools: CellTools,
  context: CellContext,
  {
    resolved,
    unavailable,
  }: { readonly resolved: ResolvedPod; readonly unavailable: readonly ShortScope[] },
): Promise<boolean> {
  const { shortages, clock } = tools;
  const { change } = context;
  const { pod } = resolved;
  const scopes = await shortagesOf(tools, context, { pod, unavailable });
  if (scopes.length === 0) return false;
  const at = wireTime(clock.now() + shortages.endsIn(scopes));
  const what = scopes.slice(0, maxNamed).map(describeScope).join("; ");
  const others = scopes.length > maxNamed ? `; ${scopes.length - maxNamed} more` : "";
  change({
    kind: "waits",
    reason: "CloudNoCapacity",
    message: `Cannot start a machine: there is no capacity of ${what}${others}. Kip tries again at ${at}, the oldest of the pods that wait first`,
  });
  const { uid: podUid } = pod.metadata;
  const createdAt = Date.parse(pod.metadata.creationTimestamp ?? "") || clock.now();
  return await whileUnchanged(tools, context, resolved, async (signal) => {
    await shortages.untilTurn({ podUid, createdAt, scopes }, signal);
  });
}

/**
 * Waits, but not after the pod has changed or can take a standby cell.
 *
 * @returns whether it can take a standby cell
 */
async function whileUnchanged(
  tools: CellTools,
  context: CellContext,
  resolved: ResolvedPod,
  wait: (signal: AbortSignal) => Promise<void>,
): Promise<boolean> {
  const { state, signal, onReplanned } = context;
  const hasChanged = new AbortController();
  onReplanned(() => {
    if (state().pod.resolved !== resolved) hasChanged.abort();
  });
  const done = new AbortController();
  const ready = new AbortController();
  void untilStandby(tools, context, AbortSignal.any([signal, done.signal])).then((isReady) => {
    if (isReady) ready.abort();
  });
  const ends = AbortSignal.any([signal, hasChanged.signal, ready.signal]);
  try {
    await wait(ends);
    return false;
  } catch (error) {
    if (signal.aborted || !ends.aborted) throw error;
    return ready.signal.aborted;
  } finally {
    done.abort();
  }
}

/** Maximum number of shortages in a message. */
const maxNamed = 5;

/**
 * How many shortages a pod waits for: those of the best machines. Thousands of pods may wait. When one of these shortages is
 * tried again, the pod may get any machine.
 */
const mostAwaited = 1000;

/** The shortages of the machines that fit the pod, with that of the best one first. @throws if no machine fits the pod at all */
async function shortagesOf(
  { chooser }: CellTools,
  context: CellContext,
  { pod, unavailable }: { readonly pod: Pod; readonly unavailable: readonly ShortScope[] },
): Promise<readonly ShortScope[]> {
  const byType = Map.groupBy(unavailable, ({ instanceType }) => instanceType);
  const scopes = new Set<ShortScope>();
  for (const placement of await chooser.placementsOf(await asGranted(chooser, context, pod))) {
    const { instanceType } = placement;
    const ofIt = [undefined, instanceType]
      .flatMap((type) => byType.get(type) ?? [])
      .filter((scope) => covers(scope, placement));
    if (ofIt.length === 0) return []; // the cloud's offer has grown in the meantime
    if (ofIt.some((scope) => scopes.has(scope))) continue;
    for (const scope of ofIt) scopes.add(scope);
    if (scopes.size >= mostAwaited) break;
  }
  return [...scopes];
}

/** The pod; with its previous size if it was resized beyond every machine. @throws if no machine fits either */
async function asGranted(
  chooser: CellTools["chooser"],
  { state }: CellContext,
  pod: Pod,
): Promise<Pod> {
  try {
    await chooser.placementOf(pod, []);
    return pod;
  } catch (error) {
    const known = state().status ?? pod.status;
    if (!isTooSmall(error) || grantedResources(known).size === 0) throw error;
    const granted = withGrantedResources(pod, known);
    await chooser.placementOf(granted, []);
    return granted;
  }
}

/** Call this when a step that follows a pod's turn fails. A pod that is removed, or cannot be started, does not keep its turn. */
export function passTurn({ shortages }: CellTools, context: CellContext, error: unknown): void {
  const isLasting = isCodedError(error) && !error.retryable;
  if (context.signal.aborted || isLasting) shortages.passed(context.state().podRef.uid);
}

/** The kind and place of a Cell's machine. */
export function placementOf(
  { driver }: Pick<CellTools, "driver">,
  { instanceType, launchType, zone = driver.zone }: CellSpec | StandbySpec,
): Placement {
  return { instanceType, zone, launchType };
}

/** Whether no machine is left that fits the pod and its price limit. */
function isNothingLeft(error: unknown): boolean {
  return isTooSmall(error) || ProviderError.is(error, "PRICE_ABOVE_LIMIT");
}
