import { ignoreNotFound, paths } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { nodeLabel } from "../../state/cell.ts";
import { byAnotherClient } from "./api-server.ts";
import type { CallFault, Death, Target } from "./gate.ts";
import type { FaultWorld, PodWish } from "./fault-world.ts";
import { nodeName } from "./kip-process.ts";
import type { Machine } from "./machines.ts";
import { hold, release } from "./other-clients.ts";

/** Operations on the world of kip. Indexes refer to what exists at that time. An index without an object does nothing. */
export type Operation =
  | ({ readonly kind: "create" } & PodWish)
  | { readonly kind: "delete"; readonly index: number; readonly graceSeconds: number | undefined }
  /** A pod's container exits. */
  | { readonly kind: "exit"; readonly index: number; readonly exitCode: number }
  /** Another client marks a pod as failed. */
  | { readonly kind: "failInApi"; readonly index: number }
  | { readonly kind: "pass"; readonly ms: number }
  | ({ readonly kind: "kill"; readonly replica: number } & Death)
  /** A process of kip ends like on SIGTERM. */
  | { readonly kind: "stop"; readonly replica: number }
  | ({ readonly kind: "fault" } & CallFault)
  | { readonly kind: "away"; readonly target: Target; readonly ms: number }
  | { readonly kind: "watch"; readonly what: "drop" | "stall" | "resume" | "forget" }
  | { readonly kind: "cut"; readonly index: number; readonly isReachable: boolean }
  | { readonly kind: "reboot"; readonly index: number }
  | { readonly kind: "endInstance"; readonly index: number }
  | { readonly kind: "interrupt"; readonly index: number; readonly noticeMs: number }
  | {
      readonly kind: "capacity";
      readonly launchType: string | undefined;
      readonly isThere: boolean;
    }
  | { readonly kind: "quota"; readonly launchType: string; readonly most: number | undefined }
  | { readonly kind: "throttle"; readonly calls: number }
  | { readonly kind: "clock"; readonly skewMs: number }
  /** Another client deletes a Cell, and may also remove its finalizers. */
  | { readonly kind: "deleteCell"; readonly index: number; readonly isForced: boolean }
  /** Another client removes kip's finalizer from a Cell. */
  | { readonly kind: "stripCell"; readonly index: number }
  /** Another client removes a Cell's labels. */
  | { readonly kind: "unlabelCell"; readonly index: number }
  /** Another client keeps a pod or a Cell by a finalizer, or releases all of them. */
  | { readonly kind: "hold"; readonly index: number }
  | { readonly kind: "release" }
  /** A pod is deleted and created again with its name. */
  | { readonly kind: "recreate"; readonly index: number; readonly graceSeconds: number }
  | { readonly kind: "deleteNode" }
  /** Another client of the cloud stops an instance on which a pod is running. */
  | { readonly kind: "stopInstance"; readonly index: number }
  | { readonly kind: "secret"; readonly isThere: boolean }
  | { readonly kind: "standby"; readonly count: number };

/** The fields of an operation besides its kind. */
export type OperationParts<K extends Operation["kind"]> = Omit<
  Extract<Operation, { readonly kind: K }>,
  "kind"
>;

type Doers = {
  readonly [K in Operation["kind"]]: (world: FaultWorld, of: OperationParts<K>) => unknown;
};

const doers: Doers = {
  create: async (world, wish) => await world.createPod(wish),
  delete: async (world, { index: at, graceSeconds }) => {
    const pod = world.api.pods()[at];
    if (pod) await world.api.client.delete(pathOf(pod), { graceSeconds });
  },
  exit: (world, { index: at, exitCode }) => machineAt(world, at)?.finish(exitCode),
  failInApi: async (world, { index: at }) => {
    const pod = world.api.pods()[at];
    if (!pod || pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed") return;
    const { namespace, name, uid } = pod.metadata;
    world.touch(uid);
    const path = paths.pods(namespace, name, "status");
    await world.api.client.patch(
      path,
      { status: { phase: "Failed", reason: byAnotherClient } },
      "merge",
    );
  },
  pass: async (world, { ms }) => await world.pass(ms),
  kill: (world, { replica, ...death }) => {
    const { gate } = world.processOf(replica);
    if (death.atCall === 1 && death.effect === "none") gate.kill();
    else gate.dieAt(death);
  },
  stop: (world, { replica }) => world.processOf(replica).stop(),
  fault: (world, fault) => world.addFault(fault),
  away: (world, { target, ms }) => world.takeAway(target, ms),
  watch: ({ api }, { what }) => {
    if (what === "drop") api.dropWatches();
    else if (what === "forget") api.forgetHistory();
    else api.isSilent = what === "stall";
  },
  cut: (world, { index: at, isReachable }) => touchedAt(world, at)?.setReachable(isReachable),
  reboot: (world, { index: at }) => touchedAt(world, at)?.reboot(),
  endInstance: async (world, { index: at }) => {
    const machine = touchedAt(world, at);
    if (machine) await world.cloud.faults.kill(machine.instance.id);
  },
  interrupt: async (world, { index: at, noticeMs }) => {
    const machine = touchedAt(world, at);
    if (machine) await world.cloud.faults.interrupt(machine.instance.id, noticeMs);
  },
  capacity: async ({ cloud }, { launchType, isThere }) => {
    const scope = { launchType };
    await (isThere ? cloud.faults.restoreCapacity(scope) : cloud.faults.noCapacity(scope));
  },
  quota: ({ quotas }, { launchType, most }) => quotas.set(launchType, most ?? Infinity),
  throttle: async ({ cloud }, { calls }) => await cloud.faults.throttle({ calls }),
  clock: (world, { skewMs }) => world.skew(skewMs),
  deleteCell: async (world, { index: at, isForced }) => {
    const { client } = world.api;
    const { metadata } = world.api.cells()[at] ?? {};
    if (!metadata) return;
    world.touch(metadata.uid);
    const path = paths.cells(metadata.name);
    await client.delete(path);
    // It is already gone if kip's finalizer was removed before.
    if (isForced)
      await ignoreNotFound(client.patch(path, { metadata: { finalizers: [] } }, "merge"));
  },
  stripCell: async (world, { index: at }) => {
    const { metadata } = world.api.cells()[at] ?? {};
    if (!metadata) return;
    world.touch(metadata.uid);
    await world.api.client.patch(
      paths.cells(metadata.name),
      { metadata: { finalizers: [] } },
      "merge",
    );
  },
  unlabelCell: async (world, { index: at }) => {
    const { metadata } = world.api.cells()[at] ?? {};
    if (!metadata) return;
    world.touch(metadata.uid);
    const change = { metadata: { labels: { [nodeLabel]: null } } };
    await world.api.client.patch(paths.cells(metadata.name), change, "merge");
  },
  hold: async ({ api }, { index: at }) => {
    const object = api.stored()[at];
    if (object) await hold(api, object);
  },
  release: async ({ api }) => await release(api, api.stored()),
  recreate: async (world, { index: at, graceSeconds }) => {
    const pod = world.api.pods()[at];
    if (!pod) return;
    await world.api.client.delete(pathOf(pod), { graceSeconds });
    world.makeAgain(pod.metadata.name);
  },
  deleteNode: async ({ api }) => {
    await ignoreNotFound(api.client.delete(paths.nodes(nodeName)));
  },
  stopInstance: (world, { index: at }) => {
    if (machineAt(world, at)?.runs === undefined) return;
    const machine = touchedAt(world, at);
    if (machine) world.stopInstance(machine);
  },
  secret: async (world, { isThere }) => await world.setSecret(isThere),
  standby: (world, { count }) => world.setStandby(count),
};

/** Carries out an operation, and lets its immediate effects happen. */
export async function perform(world: FaultWorld, { kind: name, ...of }: Operation): Promise<void> {
  const act = doers[name] as (world: FaultWorld, of: object) => unknown; // of this kind
  if (name !== "pass" && name !== "create") world.disturbed();
  await act(world, of);
  await world.settle();
}

function machineAt({ machines }: FaultWorld, at: number): Machine | undefined {
  return machines.all()[at];
}

/** Something that affects a machine may move its pod to another one, or end it. */
function touchedAt(world: FaultWorld, at: number): Machine | undefined {
  const machine = machineAt(world, at);
  if (machine) world.touch(machine.instance.token);
  return machine;
}

function pathOf({ metadata: { namespace, name } }: Pod): string {
  return paths.pods(namespace, name);
}
