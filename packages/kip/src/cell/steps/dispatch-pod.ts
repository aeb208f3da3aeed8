import { maxContainers, type DesiredPod, type DesiredSeccompProfile } from "@kip/agent-api";
import { bytes, milliCpu } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { extendedResourceList } from "../../dispatch/extended-resources.ts";
import type { CloudLogIns } from "../../dispatch/cloud-log-ins.ts";
import { checkDocumentSize, expectedBytes } from "../../dispatch/document-size.ts";
import { desiredPod, pulledImages } from "../../dispatch/desired-pod.ts";
import { registriesOf } from "../../dispatch/registries.ts";
import { readSeccompProfiles } from "../../dispatch/seccomp-profiles.ts";
import { resolvConf, type DnsSettings } from "../../dispatch/resolv-conf.ts";
import { ProviderError } from "../../errors.ts";
import { directRanges } from "../../network/direct-ranges.ts";
import type { CellChange } from "../../state/cell-change.ts";
import { grantedResources } from "../../selection/granted-resources.ts";
import { activeFor, hostAddresses, podAddresses, type CellPart } from "../../state/cell-state.ts";
import { isStandby, startPhases } from "../../state/cell.ts";
import type { CellContext } from "../cell-step.ts";
import { cellOf, required, rounded, type CellTools } from "./step-context.ts";

/** The inputs of the document that are not in the pod's state. */
interface Sources {
  readonly resolved: ResolvedPod;
  readonly dns: DnsSettings;
  readonly logIns: Awaited<ReturnType<CloudLogIns["find"]>> | undefined;
  readonly seccompProfiles: readonly DesiredSeccompProfile[];
  readonly network: DesiredPod["network"];
  readonly directRanges: DesiredPod["directRanges"];
  readonly machine: DesiredPod["machine"];
}

interface Made {
  readonly document: DesiredPod;
  readonly sources: Sources;
}

/**
 * How many documents may be dropped because the pod changed while they waited for a place. The next one is sent anyway, so that
 * a pod that changes all the time still reaches its cell.
 */
const mostDropped = 3;

/** Sends the pod, or its newest version, to the agent when there is a place for its document. */
export async function dispatch(tools: CellTools, context: CellContext): Promise<CellChange> {
  const { state, change, signal } = context;
  const cellUid = cellOf(context).metadata.uid;
  const isOnCell = state().cell.status.phase === "Claimed";
  let madeBytes = 0;
  let isTaken = false;
  const attempt = async (isLast: boolean): Promise<CellChange | undefined> => {
    const resolved = required(state().pod.resolved, "the pod is not known");
    const expected = expectedBytes(resolved, { isOnCell });
    // Before taking a place, because a slow cloud would keep others from it.
    const sources = await sourcesOf(tools, context, resolved);
    if (!isOnCell) await growDisk(tools, context);
    const make = () => {
      if (state().pod.resolved !== resolved && !isLast) return undefined;
      madeBytes = expected;
      const document = documentOf(tools, context, sources);
      madeBytes = checkDocumentSize(document, { isOnCell });
      return { document: { document, sources }, bytes: madeBytes };
    };
    const use = async (made: Made) => await send(tools, context, made);
    const size = { namespace: state().podRef.namespace, bytes: expected };
    return await tools.documents.send(size, { make, use }, signal);
  };
  try {
    for (let left = 0; ; left++) {
      const done = await attempt(left === mostDropped);
      if (!done) continue;
      isTaken = true;
      return done;
    }
  } finally {
    // Only now: once the document is charged to the pod, the plan may drop this step and abort it.
    if (madeBytes > 0 && state().cell.object?.metadata.uid === cellUid)
      change({ kind: "documentMade", bytes: madeBytes, isTaken });
  }
}

async function sourcesOf(
  tools: CellTools,
  context: CellContext,
  resolved: ResolvedPod,
): Promise<Sources> {
  const { logIns, network, networkFacts } = tools;
  const { state, signal } = context;
  const { pod } = resolved;
  const found = await logIns?.find(registriesOf(pulledImages(pod)), signal);
  const seccompProfiles = await readSeccompProfiles(pod, tools.settings().seccompProfileRoot);
  const settings = await network?.settings();
  const facts = (await networkFacts?.get()) ?? {};
  return {
    resolved,
    dns: await tools.dns(),
    logIns: found,
    seccompProfiles,
    network: settings,
    directRanges: directRanges(state().machine.instance, facts, settings),
    machine: await machineOf(tools, context, pod),
  };
}

function documentOf(tools: CellTools, context: CellContext, sources: Sources): DesiredPod {
  const { registries, images, logs } = tools.settings();
  const { resolved, logIns, ...others } = sources;
  const { pod } = resolved;
  const state = context.state();
  const hostIPs = hostAddresses(state);
  const addresses = {
    podIPs: podAddresses(state.machine, pod.spec.hostNetwork === true),
    hostIPs: hostIPs.length > 0 ? hostIPs : [state.nodeIp],
  };
  return desiredPod(resolved, {
    ...others,
    nodeIp: state.nodeIp,
    addresses,
    ipv6: state.machine.instance?.ipv6,
    registries,
    images,
    logs,
    logIns: logIns?.logIns,
    generation: nextGeneration(tools, context),
    extendedResources: extendedResourceList(
      tools.chooser.extendedResourcesOf(cellOf(context).spec.instanceType),
    ),
    granted: grantedResources(state.status ?? pod.status),
    activeForMs: activeFor(state, tools.clock.now()),
    ended: new Set(Object.keys(state.containers.ended)),
  });
}

async function send(
  tools: CellTools,
  context: CellContext,
  { document, sources }: Made,
): Promise<CellChange> {
  const { state, change, signal } = context;
  const { resolved, dns, seccompProfiles, logIns } = sources;
  const { generation } = document;
  const client = required(state().agent.client, "the agent is not connected");
  if (state().cell.status.phase !== "Claimed") {
    const [podIp = ""] = podAddresses(state().machine, resolved.pod.spec.hostNetwork === true);
    await claim(tools, context, podIp);
    for (const { reason, message } of resolvConf(resolved.pod, dns).problems)
      tools.onProblem(resolved.pod.metadata.uid, reason, message);
  }
  const ephemeral = (document.ephemeralContainers ?? []).map(({ name }) => name);
  reportIgnored(tools, context, { pod: resolved.pod, ephemeral });
  change({ kind: "podSent", generation, ephemeral, machine: document.machine });
  const held = await client.putPod(document, signal);
  if (held !== undefined) change({ kind: "podHeld", generation: held });
  if (held !== undefined && held > generation) throw ignored(context, { generation, held });
  const missingProfiles = missingOf(seccompProfiles);
  const renewInMs = logIns?.renewInMs;
  return { kind: "dispatched", resolved, generation, renewInMs, missingProfiles };
}

/**
 * Reports the ephemeral containers that are not sent. A report with more could not be read, and the cell would count as lost.
 */
function reportIgnored(
  { onProblem }: CellTools,
  { state }: CellContext,
  { pod, ephemeral }: { readonly pod: Pod; readonly ephemeral: readonly string[] },
): void {
  const known = new Set([...ephemeral, ...Object.keys(state().containers.ended)]);
  const ignored = (pod.spec.ephemeralContainers ?? []).filter(({ name }) => !known.has(name));
  if (!ignored[0]) return;
  const message = `A cell starts at most ${maxContainers} ephemeral containers: "${ignored[0].name}" and those after it are not started`;
  onProblem(pod.metadata.uid, "EphemeralContainersIgnored", message);
}

/**
 * Reads the pod's seccomp profiles. If the missing ones differ from those that were missing in the last document, sends the pod
 * again.
 */
export async function lookForProfiles(
  { settings }: CellTools,
  { state }: CellContext,
): Promise<CellChange> {
  const { pod } = required(state().pod.resolved, "the pod is not known");
  const missing = missingOf(await readSeccompProfiles(pod, settings().seccompProfileRoot));
  return { kind: "profilesLooked", missing };
}

function missingOf(profiles: readonly DesiredSeccompProfile[]): readonly DesiredSeccompProfile[] {
  return profiles.filter(({ error }) => error !== undefined);
}

/**
 * The size of the cell's instance type in the cloud's current offer, or as it was sent before. Undefined if not known: the
 * agent then accepts every resize. If the cloud does not respond, the pod must still reach its cell.
 */
async function machineOf(
  { chooser, logger }: CellTools,
  context: CellContext,
  pod: Pod,
): Promise<DesiredPod["machine"]> {
  try {
    const size = await chooser.sizeOf(pod, cellOf(context).spec.instanceType);
    const { cpu, memory } = size ?? {};
    if (cpu !== undefined && memory !== undefined)
      return { cpuMilli: milliCpu(cpu), memoryBytes: bytes(memory) };
  } catch (error) {
    logger.warn("Could not look up the size of a cell", { err: error });
  }
  return context.state().agent.machine;
}

/** The clock may have been set back, and the agent ignores a generation that is not newer. */
function nextGeneration({ clock }: CellTools, { state }: CellContext): number {
  const { generation = 0, report } = state().agent;
  return Math.max(clock.now() * 1000, Math.max(generation, report?.generation ?? 0) + 1);
}

/**
 * Enlarges the disk of a standby cell to the pod's size. The agent enlarges the file system before it creates the pod. Safe to
 * repeat, so if kip is killed here, the next process does it again.
 */
async function growDisk({ driver }: CellTools, context: CellContext): Promise<void> {
  const cell = cellOf(context);
  if (isStandby(cell) || cell.spec.launchedDiskBytes === undefined) return;
  const { id } = required(context.state().machine.instance, "the instance is not known");
  await driver.growRootDisk(id, cell.spec.rootDiskBytes);
}

/** Writes the phase `Claimed` before the pod is sent. A cell that may run the pod must not count as unused. */
async function claim(
  { statuses, onEvent }: CellTools,
  context: CellContext,
  podIp: string,
): Promise<void> {
  const { state, change } = context;
  const cell = cellOf(context);
  const { startMs, status } = state().cell;
  change({ kind: "cellStatus", status: { phase: "Claimed", startMs: rounded(startMs) } });
  try {
    await statuses.write(cell, state().cell.status);
  } catch (error) {
    change({ kind: "cellStatus", status: { phase: status.phase } });
    throw error;
  }
  const message = `Cell "${cell.metadata.name}" answers at ${podIp}${timesText(startMs)}`;
  onEvent(state().podRef.uid, "CellReady", message);
}

/** The start times up to the agent's response, as text. The agent's own events contain the later ones. */
function timesText(startMs: CellPart["startMs"]): string {
  const known = startPhases.flatMap((phase) => {
    const ms = startMs[phase];
    return ms === undefined ? [] : `${phase} ${(ms / 1000).toFixed(2)} s`;
  });
  return known.length === 0 ? "" : `; its start took: ${known.join(", ")}`;
}

/** The error if the agent ignored the document. The next attempt sends a newer one. */
function ignored(
  context: CellContext,
  { generation, held }: { readonly generation: number; readonly held: number },
): ProviderError {
  const { name } = cellOf(context).metadata;
  return new ProviderError(
    "CELL_POD_IGNORED",
    `Cannot give Cell "${name}" its pod: the agent has generation ${held}, which is newer than ${generation}`,
    { retryable: true, remedy: "Set the clock of kip's machine; it is sent again" },
  );
}
