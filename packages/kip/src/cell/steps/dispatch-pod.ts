import type { DesiredPod, DesiredSeccompProfile } from "@kip/agent-api";
import { bytes, milliCpu } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import { extendedResourceList } from "../../dispatch/extended-resources.ts";
import { checkContentSize, checkDocumentSize } from "../../dispatch/document-size.ts";
import { desiredPod, pulledImages } from "../../dispatch/desired-pod.ts";
import { registriesOf } from "../../dispatch/registries.ts";
import { readSeccompProfiles } from "../../dispatch/seccomp-profiles.ts";
import { resolvConf } from "../../dispatch/resolv-conf.ts";
import { ProviderError } from "../../errors.ts";
import { directRanges } from "../../network/direct-ranges.ts";
import type { CellChange } from "../../state/cell-change.ts";
import { grantedResources } from "../../selection/granted-resources.ts";
import { activeFor, hostAddresses, podAddresses, type CellPart } from "../../state/cell-state.ts";
import { isStandby, startPhases } from "../../state/cell.ts";
import type { CellContext } from "../cell-step.ts";
import { cellOf, required, rounded, type CellTools } from "./step-context.ts";

/** Sends the pod, or its newest version, to the agent. */
export async function dispatch(tools: CellTools, context: CellContext): Promise<CellChange> {
  const { clock, logIns, network, networkFacts } = tools;
  const { registries, images, logs, seccompProfileRoot } = tools.settings();
  const { state, change, signal } = context;
  const resolved = required(state().pod.resolved, "the pod is not known");
  const client = required(state().agent.client, "the agent is not connected");
  const isOnCell = state().cell.status.phase === "Claimed";
  checkContentSize(resolved, { isOnCell });
  const podIPs = podAddresses(state().machine, resolved.pod.spec.hostNetwork === true);
  const hostIPs = hostAddresses(state());
  const found = await logIns?.find(registriesOf(pulledImages(resolved.pod)), signal);
  const seccompProfiles = await readSeccompProfiles(resolved.pod, seccompProfileRoot);
  const generation = nextGeneration(tools, context);
  const dns = await tools.dns();
  const networkSettings = await network?.settings();
  const document = desiredPod(resolved, {
    nodeIp: state().nodeIp,
    addresses: { podIPs, hostIPs: hostIPs.length > 0 ? hostIPs : [state().nodeIp] },
    ipv6: state().machine.instance?.ipv6,
    dns,
    network: networkSettings,
    directRanges: directRanges(
      state().machine.instance,
      (await networkFacts?.get()) ?? {},
      networkSettings,
    ),
    registries,
    images,
    logs,
    seccompProfiles,
    logIns: found?.logIns,
    generation,
    extendedResources: extendedResourceList(
      tools.chooser.extendedResourcesOf(cellOf(context).spec.instanceType),
    ),
    machine: await machineOf(tools, context, resolved.pod),
    granted: grantedResources(state().status ?? resolved.pod.status),
    activeForMs: activeFor(state(), clock.now()),
    ended: new Set(Object.keys(state().containers.ended)),
  });
  checkDocumentSize(document, { isOnCell });
  if (!isOnCell) {
    await growDisk(tools, context);
    await claim(tools, context, podIPs[0] ?? "");
    for (const { reason, message } of resolvConf(resolved.pod, dns).problems)
      tools.onProblem(resolved.pod.metadata.uid, reason, message);
  }
  const ephemeral = (document.ephemeralContainers ?? []).map(({ name }) => name);
  change({ kind: "podSent", ephemeral, machine: document.machine });
  const held = await client.putPod(document, signal);
  if (held !== undefined) change({ kind: "podHeld", generation: held });
  if (held !== undefined && held > generation) throw ignored(context, { generation, held });
  const missingProfiles = missingOf(seccompProfiles);
  return { kind: "dispatched", resolved, renewInMs: found?.renewInMs, missingProfiles };
}

/** Reads the profiles of the pod, which is sent again if another one is missing than was sent as missing. */
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
 * What the cell's type has on offer now, else what it had. Undefined if that is not known: the agent then takes every resize for feasible. A cloud that
 * does not answer must not keep the pod from its cell.
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

/** The clock may have been set back; the agent ignores a generation that is not newer. */
function nextGeneration({ clock }: CellTools, { state }: CellContext): number {
  const { generation = 0, report } = state().agent;
  return Math.max(clock.now() * 1000, Math.max(generation, report?.generation ?? 0) + 1);
}

/**
 * Has the disk of a standby cell grow to what its pod needs; the agent grows the file system before it makes the pod. Repeating it
 * changes nothing, so a kip that is killed here does it again.
 */
async function growDisk({ driver }: CellTools, context: CellContext): Promise<void> {
  const cell = cellOf(context);
  if (isStandby(cell) || cell.spec.launchedDiskBytes === undefined) return;
  const { id } = required(context.state().machine.instance, "the instance is not known");
  await driver.growRootDisk(id, cell.spec.rootDiskBytes);
}

/** Writes that the cell has its pod. That comes before the pod is sent: a cell that may run it must not count as unused. */
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

/** How long the start took until the agent answered; the agent's own events tell the rest. */
function timesText(startMs: CellPart["startMs"]): string {
  const known = startPhases.flatMap((phase) => {
    const ms = startMs[phase];
    return ms === undefined ? [] : `${phase} ${(ms / 1000).toFixed(2)} s`;
  });
  return known.length === 0 ? "" : `; its start took: ${known.join(", ")}`;
}

/** The next attempt sends a newer one. */
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
