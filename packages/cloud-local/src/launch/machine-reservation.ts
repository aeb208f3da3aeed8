import { createHash } from "node:crypto";
import { hostArchitecture } from "@kip/base";
import { CloudError, type InstanceTypeOffer, type LaunchRequest } from "@kip/cloud";
import type { Resources } from "../admission/admission-plan.ts";
import type { Turn } from "../admission/admission.ts";
import { checkCapacity, roomIn, type HostFigures } from "../admission/capacity.ts";
import { machineMemoryBytes } from "../host/catalog.ts";
import { availableMemoryBytes, freeDiskBytes, readHostFacts } from "../host/host-facts.ts";
import { controlGroupPath } from "../host/control-group.ts";
import { residentBytes, usersInUse } from "../host/processes.ts";
import type { LocalImage } from "../host/image.ts";
import type { ResolvedLocalCloudOptions } from "../options/local-cloud-options.ts";
import type { AddressPlan } from "../network/address-plan.ts";
import { gatewayMac } from "../network/ipv6-setup.ts";
import { unwrittenOfVolumes } from "../volume/volume-room.ts";
import { readMachinePid, allocatedBytes } from "../machine/machine-process.ts";
import { machineGroupName, type MachineRecord } from "../machine/machine-record.ts";
import type { MachineStore } from "../machine/machine-store.ts";
import { userOfSlot } from "../qemu/machine-user.ts";

/** ID of the machine for an owner's token. */
export function machineId(owner: string, token: string): string {
  return `i-${createHash("sha256").update(`${owner}\0${token}`).digest("hex").slice(0, 17)}`;
}

/** A machine's resources on this host. */
export interface MachineSize {
  readonly cpus: number;
  /** Memory of the machine, including its overhead. */
  readonly memoryBytes: number;
  readonly rootDiskBytes: number;
}

/** The resources of a machine of this type. */
export function machineSize(
  offer: InstanceTypeOffer,
  rootDiskBytes: number,
  image: LocalImage,
): MachineSize {
  return {
    cpus: Math.ceil(offer.cpuMilli / 1000),
    memoryBytes: machineMemoryBytes(offer.memoryBytes),
    rootDiskBytes: Math.ceil(Math.max(rootDiskBytes, image.rootDiskBytes) / 512) * 512,
  };
}

/** Dependencies of {@link reserveMachine}. */
export interface ReservationContext {
  readonly options: ResolvedLocalCloudOptions;
  readonly store: MachineStore;
  readonly plan: AddressPlan;
  readonly offers: readonly InstanceTypeOffer[];
  /** The launch's place in the queue. */
  readonly turn: Turn;
}

/**
 * Checks that it is the machine's turn and that there are enough resources. Writes its record, with addresses of its own.
 * Callers hold the machine's lock.
 *
 * @throws {CloudError} `CLOUD_INVALID_REQUEST`, `CLOUD_QUOTA`, `CLOUD_NO_CAPACITY`; nothing is left behind
 */
export async function reserveMachine(
  context: ReservationContext,
  request: LaunchRequest,
  image: LocalImage,
): Promise<MachineRecord> {
  const { options, store, plan } = context;
  const offer = findOffer(context.offers, request.instanceType);
  const { architecture = hostArchitecture } = offer;
  if (image.architecture !== architecture)
    throw new CloudError(
      "CLOUD_INVALID_REQUEST",
      `Cannot start a machine of type "${offer.name}": image "${image.id}" is for ${image.architecture}, the type is ${architecture}`,
      { remedy: "Name an image for the type's processor" },
    );
  const id = machineId(options.owner, request.token);
  const size = machineSize(offer, request.rootDiskBytes, image);
  return await store.lockAll(async () => {
    const machines = await store.readAll();
    await takeTurn(context, machines, { id, offer, ...size });
    const { uid, slot } = await freePlace(context, machines);
    const controlGroup = await controlGroupPath(machineGroupName(options, id));
    const record: MachineRecord = {
      id,
      token: request.token,
      name: request.name,
      owner: options.owner,
      instanceType: offer.name,
      launchType: request.launchType,
      image: image.id,
      ...size,
      slot,
      userId: uid,
      controlGroup,
      managementIp: plan.machine(slot),
      podIp: plan.pod(slot),
      ipv6: ipv6Of(plan, slot),
      launchedAt: new Date(options.clock.now()).toISOString(),
      tags: request.tags,
      state: "starting",
    };
    await store.add(record);
    return record;
  });
}

function ipv6Of({ ipv6 }: AddressPlan, slot: number): MachineRecord["ipv6"] {
  if (!ipv6) return undefined;
  const gateway = { address: ipv6.gateway, mac: gatewayMac };
  return { managementIp: ipv6.machine(slot), podIp: ipv6.pod(slot), gateway };
}

async function takeTurn(
  { options, store, turn }: ReservationContext,
  machines: readonly MachineRecord[],
  asked: MachineSize & { readonly id: string; readonly offer: InstanceTypeOffer },
): Promise<void> {
  const figures = await readFigures(options, store, machines);
  const needs: Resources = {
    memory: asked.memoryBytes,
    disk: Math.min(asked.rootDiskBytes, options.diskReserveBytes),
    cpus: asked.cpus,
  };
  await turn.take(asked.id, needs, roomIn(figures), () =>
    refusalOf(() =>
      checkCapacity(asked.offer.name, {
        ...figures,
        neededMemoryBytes: needs.memory,
        neededDiskBytes: needs.disk,
        neededCpus: needs.cpus,
      }),
    ),
  );
}

/** The resources that are left for more machines. */
export async function readRoom(
  options: ResolvedLocalCloudOptions,
  store: MachineStore,
): Promise<Resources> {
  return roomIn(await readFigures(options, store, await store.readAll()));
}

async function readFigures(
  options: ResolvedLocalCloudOptions,
  store: MachineStore,
  machines: readonly MachineRecord[],
): Promise<HostFigures> {
  const living = machines.filter((machine) => machine.state !== "ended");
  const used = await Promise.all(
    living.map(async (machine) => {
      const files = store.files(machine.id);
      const pid = await readMachinePid(files);
      const resident = pid === undefined ? 0 : await residentBytes(pid);
      const written = await allocatedBytes(files.rootDisk);
      const reserve = Math.min(machine.rootDiskBytes, options.diskReserveBytes);
      return {
        untouched: Math.max(0, machine.memoryBytes - resident),
        unwritten: Math.max(0, reserve - written),
      };
    }),
  );
  const { stateDir, diskReserveBytes, cpuOvercommit } = options;
  const ofVolumes = await unwrittenOfVolumes(stateDir, diskReserveBytes);
  return {
    promisedMemoryBytes: sum(living.map((machine) => machine.memoryBytes)),
    untouchedMemoryBytes: sum(used.map(({ untouched }) => untouched)),
    memoryLimitBytes: options.host.memoryBytes,
    availableMemoryBytes: await availableMemoryBytes(),
    unwrittenDiskBytes: sum(used.map(({ unwritten }) => unwritten)) + ofVolumes,
    freeDiskBytes: await freeDiskBytes(stateDir),
    promisedCpus: sum(living.map((machine) => machine.cpus)),
    cpuLimit: Math.floor(readHostFacts().cpus * cpuOvercommit),
  };
}

function refusalOf(check: () => void): CloudError | undefined {
  try {
    check();
  } catch (error) {
    if (error instanceof CloudError) return error;
    throw error;
  }
  return undefined;
}

/** The offer with that name. @throws {CloudError} `CLOUD_INVALID_REQUEST` */
export function findOffer(offers: readonly InstanceTypeOffer[], name: string): InstanceTypeOffer {
  const offer = offers.find((candidate) => candidate.name === name);
  if (offer) return offer;
  throw new CloudError(
    "CLOUD_INVALID_REQUEST",
    `Cannot start a machine of type "${name}": it is not on offer here`,
    { remedy: `Choose one of ${offers.map((candidate) => candidate.name).join(", ")}` },
  );
}

/**
 * The lowest free slot, with its user. A record keeps its slot until its folder is removed, so two machines never share an
 * address. A slot is not free while any process runs as its user.
 */
async function freePlace(
  { plan, options }: Pick<ReservationContext, "plan" | "options">,
  machines: readonly MachineRecord[],
): Promise<{ readonly slot: number; readonly uid: number }> {
  const taken = new Set(machines.map((machine) => machine.slot));
  const users = await usersInUse();
  for (let slot = 0; slot < plan.capacity; slot++) {
    const { uid } = userOfSlot(options.firstUserId, slot);
    if (!taken.has(slot) && !users.has(uid)) return { slot, uid };
  }
  throw new CloudError(
    "CLOUD_NO_CAPACITY",
    `Cannot start a machine: all ${plan.capacity} addresses of ${plan.machines} are taken`,
    { remedy: "Choose a bigger range for the local cloud", scope: { zone: "local" } },
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
