import {
  AgentError,
  type DesiredContainer,
  type DesiredExtendedResource,
  type DesiredPod,
} from "@kip/agent-api";
import type { EndReason, GivenDevices } from "../state/pod-state.ts";
import { total } from "../state/amounts.ts";
import type { CdiDevice, CdiDevices } from "./cdi-devices.ts";

/** The devices that a pod's containers get, or why the pod cannot run here. */
export type Allocation =
  | { readonly devices: GivenDevices; readonly rejection?: undefined }
  | { readonly rejection: EndReason; readonly devices?: undefined };

type Pod = Pick<DesiredPod, "initContainers" | "containers" | "extendedResources">;

/** GPUs are always devices, so a container that requests one cannot run without. */
const gpus = /(^|[./-])gpu([./-]|$)/;

/**
 * Assigns the machine's devices to the pod's containers, by the kubelet's rules. Each device is assigned to one container.
 * Those of init containers that have ended are assigned again. Pure.
 *
 * A resource without devices is only counted, if the machine's type has it. Otherwise it is ignored, as on a node without it.
 */
export function allocateDevices(pod: Pod, devices: CdiDevices): Allocation {
  const containers = [...pod.initContainers, ...pod.containers];
  const resources = new Set(
    containers.flatMap((one) => (one.extendedResources ?? []).map(({ resource }) => resource)),
  );
  const given = new Map<string, string[]>();
  for (const resource of resources) {
    const ofKind = devices.get(resource);
    const isDevice = ofKind !== undefined || (gpus.test(resource) && !isCounted(pod, resource));
    const rejection = isDevice
      ? share(pod, { resource, free: ofKind ?? [], given })
      : exceeded(pod, resource);
    if (rejection) return { rejection };
  }
  return { devices: Object.fromEntries(given) };
}

/**
 * The devices that a container was given, as currently described.
 *
 * @throws {AgentError} code `AGENT_DEVICE_GONE`
 */
export function givenDevices(ids: readonly string[] = [], devices: CdiDevices): CdiDevice[] {
  const all = new Map(
    [...devices].flatMap(([kind, list]) => list.map((one) => [givenId(kind, one), one] as const)),
  );
  return ids.map((id) => {
    const device = all.get(id);
    if (!device) throw new AgentError("AGENT_DEVICE_GONE", `device ${id} is gone`);
    return device;
  });
}

function givenId(kind: string, { id }: CdiDevice): string {
  return `${kind}=${id}`;
}

/** Whether any container requests an extended resource. */
export function hasExtendedResources({ initContainers, containers }: Pod): boolean {
  return [...initContainers, ...containers].some(asks);
}

/**
 * Whether another container starts before the first one that requests devices. It may install their driver and the files that
 * describe them.
 */
export function mayComeLater({ initContainers: [first] }: Pod): boolean {
  return first !== undefined && !asks(first);
}

function asks({ extendedResources = [] }: DesiredContainer): boolean {
  return extendedResources.length > 0;
}

function isCounted({ extendedResources = [] }: Pod, resource: string): boolean {
  return extendedResources.some((each) => each.resource === resource);
}

interface Share {
  readonly resource: string;
  /** In the order in which they are assigned. */
  readonly free: readonly CdiDevice[];
  /** By container. This function adds to it. */
  readonly given: Map<string, string[]>;
}

function share(pod: Pod, { resource, free, given }: Share): EndReason | undefined {
  let left = free;
  const take = (container: DesiredContainer, keeps: boolean): EndReason | undefined => {
    const count = countOf(container.extendedResources, resource);
    if (count > left.length) return unavailable(resource, count, left.length);
    const own = given.get(container.name) ?? [];
    const ids = left.slice(0, count).map((device) => givenId(resource, device));
    given.set(container.name, [...own, ...ids]);
    if (keeps) left = left.slice(count);
    return undefined;
  };
  for (const container of pod.initContainers) {
    const rejection = take(container, container.restartPolicy === "Always");
    if (rejection) return rejection;
  }
  for (const container of pod.containers) {
    const rejection = take(container, true);
    if (rejection) return rejection;
  }
  return undefined;
}

function unavailable(resource: string, requested: number, available: number): EndReason {
  const words = `requested number of devices unavailable for ${resource}. Requested: ${requested}, Available: ${available}`;
  return {
    reason: "UnexpectedAdmissionError",
    message: `Allocate failed due to ${words}, which is unexpected`,
  };
}

function exceeded(pod: Pod, resource: string): EndReason | undefined {
  if (!isCounted(pod, resource)) return undefined;
  const capacity = countOf(pod.extendedResources, resource);
  const requested = total(pod, (one) => countOf(one.extendedResources, resource));
  if (requested <= capacity) return undefined;
  return {
    reason: `OutOf${resource}`,
    message: `Node didn't have enough resource: ${resource}, requested: ${requested}, used: 0, capacity: ${capacity}`,
  };
}

function countOf(list: readonly DesiredExtendedResource[] = [], resource: string): number {
  return list.find((each) => each.resource === resource)?.count ?? 0;
}
