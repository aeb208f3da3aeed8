import { CodedError } from "@kip/base";
import { desiredPod, imagesOf } from "../../dispatch/desired-pod.ts";
import { registriesOf } from "../../dispatch/registries.ts";
import { podAddress, type CellMemory } from "../../state/cell-memory.ts";
import { startPhases, type Cell } from "../../state/cell.ts";
import { activeFor } from "../../state/pod-deadline.ts";
import { noteGeneration } from "./connect-agent.ts";
import { required, rounded, type StepContext } from "./step-context.ts";

/** Sends the pod, or its newest version, to the agent. */
export async function dispatch(
  context: StepContext,
  memory: CellMemory,
  signal: AbortSignal,
): Promise<void> {
  const { clock, nodeIp, registries, images, logIns, dns, onEvent } = context.options;
  const resolved = required(memory.resolved, "the pod is not known");
  const agent = required(memory.agent, "the agent is not connected");
  const cell = required(memory.cell, "there is no cell");
  const podIp = podAddress(memory, resolved.pod.spec.hostNetwork === true);
  const found = await logIns?.find(registriesOf(imagesOf(resolved.pod)), signal);
  noteGeneration(memory, memory.report?.generation);
  // The clock may have been set back; the agent ignores a generation that is not newer.
  const generation = Math.max(clock.now() * 1000, (memory.agentGeneration ?? 0) + 1);
  const document = desiredPod(resolved, {
    addresses: { podIPs: [podIp], hostIPs: [nodeIp] },
    dns: await dns(),
    registries,
    images,
    logIns: found?.logIns,
    generation,
    activeForMs: activeFor(memory, clock.now()),
    ended: new Set(Object.keys(memory.ended)),
  });
  const { phase } = memory.status;
  if (phase !== "Claimed") {
    // Written before the pod is sent: a cell that may run it must not count as unused.
    memory.status = { ...memory.status, phase: "Claimed", startMs: rounded(memory.startMs) };
    try {
      await context.statuses.write(cell, memory.status);
    } catch (error) {
      memory.status = { ...memory.status, phase };
      throw error;
    }
    onEvent(memory, "CellReady", `Cell "${cell.metadata.name ?? ""}" answers at ${podIp}`);
  }
  for (const { name } of document.ephemeralContainers ?? []) memory.sentEphemeral.add(name);
  const held = await agent.putPod(document, signal);
  noteGeneration(memory, held);
  if (held !== undefined && held > generation) throw ignored(cell, { generation, held });
  // A change during the request is sent with the next dispatch.
  memory.isDispatched = memory.resolved === resolved;
  const { renewInMs } = found ?? {};
  memory.renewAt = renewInMs === undefined ? undefined : clock.monotonic() + renewInMs;
  memory.waitReason = undefined;
}

/** The next attempt sends a newer one. */
function ignored(
  { metadata }: Cell,
  { generation, held }: { readonly generation: number; readonly held: number },
): CodedError {
  return new CodedError(
    "CELL_POD_IGNORED",
    `Cannot give Cell "${metadata.name ?? ""}" its pod: the agent has generation ${held}, which is newer than ${generation}`,
    { retryable: true, remedy: "Set the clock of kip's machine; it is sent again" },
  );
}

/** Learns image digests from the agent's report, and completes the times of the start once. */
export function noteReport(context: StepContext, memory: CellMemory): void {
  const { report, status, resolved } = memory;
  context.knownImages.learn(report, resolved?.pod);
  const { pull, unpack, start } = report?.timingsMs ?? {};
  if (start === undefined || !status.startMs || status.startMs.start !== undefined) return;
  const startMs = rounded({ ...status.startMs, pull: pull ?? 0, unpack: unpack ?? 0, start });
  context.setStatus(memory, { startMs });
  const phases = startPhases.map(
    (phase) => `${phase} ${((startMs[phase] ?? 0) / 1000).toFixed(2)} s`,
  );
  context.options.onEvent(memory, "CellStartTimes", `The pod's start took: ${phases.join(", ")}`);
}
