import assert from "node:assert/strict";
import type { Pod } from "@kip/k8s-types";
import { isStandby, type Cell } from "../../state/cell.ts";
import type { FaultWorld, PodFacts } from "./fault-world.ts";

/** Checks what must be true some time after the faults have stopped. */
export async function assertFinal(world: FaultWorld): Promise<void> {
  assert.deepEqual(world.mistakes, []);
  const cells = world.api.cells();
  const [instances] = await Promise.all([world.instances(), world.pass(10_000)]);
  assert.deepEqual(
    instances.map(({ token }) => token).sort(),
    cells.map(({ metadata }) => metadata.uid).sort(),
    "each Cell has its instance, and each instance its Cell",
  );
  const pods = world.api.pods();
  const ofPods = cells.filter((cell): cell is Cell => !isStandby(cell));
  const live = pods.filter((pod) => !isFinal(pod)).map(({ metadata }) => metadata.uid ?? "");
  assert.deepEqual(
    ofPods.map(({ spec }) => spec.podRef.uid).sort(),
    live.sort(),
    "each pod that has not ended has one Cell",
  );
  assert.equal(cells.length - ofPods.length, world.standby(), "standby cells");
  const running = world.machines.all().flatMap(({ runs }) => runs ?? []);
  assert.deepEqual(running.sort(), live, "each pod that has not ended runs");
  for (const pod of pods) assertPod(pod);
  for (const pod of world.pods.values()) if (world.isUntouched(pod)) assertUntouched(world, pod);
}

/** Neither kills of kip nor failed calls may move or end a pod. */
function assertUntouched({ api }: FaultWorld, { uid, name, machines, exitCode }: PodFacts): void {
  assert.ok(machines.size <= 1, `${name} was moved from a machine on which it ran`);
  const pod = api.pods().find(({ metadata }) => metadata.uid === uid);
  if (!pod) return; // it was deleted
  const expected = exitCode === undefined ? "Running" : exitCode === 0 ? "Succeeded" : "Failed";
  assert.equal(pod.status?.phase, expected, `${name}, whose container's exit code is ${exitCode}`);
}

function assertPod({ metadata, status }: Pod): void {
  const { name } = metadata;
  assert.equal(metadata.deletionTimestamp, undefined, `${name} was deleted, and is still there`);
  const phases = ["Running", "Succeeded", "Failed"];
  assert.ok(phases.includes(status?.phase ?? ""), `${name} is ${status?.phase}`);
}

function isFinal({ status }: Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}
