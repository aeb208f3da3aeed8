import { CloudError } from "@kip/cloud";
import { nearest, signalProcess } from "@kip/base";
import { readMachinePid } from "../machine/machine-process.ts";
import type { MachineRecord } from "../machine/machine-record.ts";
import type { MachineStore } from "../machine/machine-store.ts";

/**
 * The record of an existing machine.
 *
 * @throws {CloudError} `CLOUD_NOT_FOUND`
 */
export async function livingMachine(store: MachineStore, id: string): Promise<MachineRecord> {
  const record = await store.read(id);
  if (record && isLiving(record)) return record;
  throw new CloudError("CLOUD_NOT_FOUND", `Cannot end machine "${id}": it does not exist`);
}

/** Ends a machine as a failing host would: kills its process without notice. */
export async function endAbruptly(store: MachineStore, id: string): Promise<void> {
  const pid = await readMachinePid(store.files(id));
  if (pid !== undefined) signalProcess(pid, "SIGKILL");
}

/**
 * Finds a machine by its ID, the name of its cell, or its pod (`name` or `namespace/name`).
 *
 * @throws {CloudError} `CLOUD_NOT_FOUND` with the nearest name; `CLOUD_INVALID_REQUEST` if several match
 */
export async function findMachine(store: MachineStore, word: string): Promise<MachineRecord> {
  const machines = (await store.readAll()).filter(isLiving);
  const found = machines.filter((machine) => namesOf(machine).includes(word));
  const [machine, ...others] = found;
  if (machine && others.length === 0) return machine;
  if (machine) {
    const pods = found.map((each) => podOf(each) ?? each.id).sort();
    throw new CloudError("CLOUD_INVALID_REQUEST", `Cannot choose a cell: "${word}" fits several`, {
      remedy: `Name one of ${pods.join(", ")}`,
    });
  }
  const near = nearest(word, machines.flatMap(namesOf));
  throw new CloudError(
    "CLOUD_NOT_FOUND",
    `Cannot find a running cell for "${word}": no cell and no pod on a cell has this name`,
    {
      remedy:
        near === undefined
          ? "See kubectl get cells, and write a pod as NAMESPACE/NAME"
          : `Did you mean ${near}?`,
    },
  );
}

/** The machine's pod, as `namespace/name`. */
export function podOf({ tags }: MachineRecord): string | undefined {
  const name = tags["kip-pod-name"];
  return name === undefined ? undefined : `${tags["kip-pod-namespace"] ?? "default"}/${name}`;
}

function namesOf(machine: MachineRecord): readonly string[] {
  const pod = podOf(machine);
  const podNames = pod === undefined ? [] : [pod, pod.slice(pod.indexOf("/") + 1)];
  return [machine.id, machine.name, ...podNames];
}

function isLiving({ state }: MachineRecord): boolean {
  return state === "starting" || state === "running";
}
