import { defined } from "@kip/base";
import type { Instance } from "@kip/cloud";
import type { CellMemory } from "../../state/cell-memory.ts";
import type { CellStatus } from "../../state/cell.ts";
import { userData } from "./user-data.ts";
import { required, type StepContext, type StepActor } from "./step-context.ts";

/** Looks up the Cell's instance in the cloud: after a start of kip, or when an answer was lost. */
export async function observeInstance(context: StepContext, memory: CellMemory): Promise<void> {
  const cell = required(memory.cell, "there is no cell");
  const { driver } = context.options;
  const id = cell.status?.instanceID;
  const instance =
    id === undefined
      ? (await driver.list()).find((each) => each.token === cell.metadata.uid)
      : await driver.describe(id);
  if (!instance) {
    memory.instanceState = id === undefined ? "none" : "gone";
    return;
  }
  instanceSeen(memory, instance);
}

/** Asks the cloud for the instance; repeating it finds the instance that was started. */
export async function launch(
  context: StepContext,
  actor: StepActor,
  signal: AbortSignal,
): Promise<void> {
  const { memory } = actor;
  const cell = required(memory.cell, "there is no cell");
  const { driver, identities, clock, onEvent } = context.options;
  const began = clock.monotonic();
  const images = memory.resolved && context.imagesOf(memory.resolved);
  const { name = "", creationTimestamp: createdAt } = cell.metadata;
  const { identity, expires } = await identities.issueForCell(name);
  let instance: Instance;
  try {
    instance = await driver.launch(
      {
        token: cell.metadata.uid ?? "",
        name,
        instanceType: cell.spec.instanceType,
        launchType: cell.spec.launchType,
        image: cell.spec.image,
        rootDiskBytes: cell.spec.rootDiskBytes,
        userData: userData(identity),
        ...(images && { images }),
        ...(createdAt !== undefined && { createdAt }),
        onWait: ({ message }) => actor.reportWait("CellWaits", message),
        privateIpOnly: cell.spec.privateIPOnly,
        tags: {
          "kip-pod-namespace": cell.spec.podRef.namespace,
          "kip-pod-name": cell.spec.podRef.name,
          "kip-pod-uid": cell.spec.podRef.uid,
        },
      },
      signal,
    );
  } catch (error) {
    // The cloud may have started the instance.
    memory.instanceState = "unknown";
    throw error;
  }
  memory.startMs.cloud = clock.monotonic() - began;
  memory.waitReason = undefined;
  instanceSeen(memory, instance);
  memory.unreachableSince = clock.monotonic();
  context.setStatus(memory, {
    phase: "Launching",
    instanceID: instance.id,
    identityExpires: expires.toISOString(),
  });
  onEvent(
    memory,
    "CellLaunched",
    `Instance "${instance.id}" (${instance.instanceType}) was started`,
  );
}

/** Waits until the instance runs and has its addresses. */
export async function awaitRunning(
  context: StepContext,
  memory: CellMemory,
  signal: AbortSignal,
): Promise<void> {
  const { driver, clock } = context.options;
  const began = clock.monotonic();
  const id = required(memory.instance, "there is no instance").id;
  try {
    instanceSeen(memory, await driver.waitForRunning(id, signal));
  } catch (error) {
    memory.instanceState = "unknown";
    throw error;
  }
  memory.startMs.cloud = (memory.startMs.cloud ?? 0) + clock.monotonic() - began;
  context.setStatus(memory, { phase: "Booting", ...instanceFacts(memory.instance) });
}

function instanceSeen(memory: CellMemory, instance: Instance): void {
  memory.instance = instance;
  if (instance.state === "running") memory.instanceState = "running";
  else memory.instanceState = instance.state === "pending" ? "pending" : "gone";
}

/** What a Cell's status says of its instance. */
export function instanceFacts(
  instance: Instance | undefined,
): Pick<CellStatus, "ip" | "podIP" | "startedFrom"> {
  const { managementIp: ip, podIp: podIP, startedFrom } = instance ?? {};
  return defined({ ip, podIP, startedFrom });
}
