import type { Container, ContainerStatus, Pod, PodStatus } from "@kip/k8s-types";

/** The resources that a pod's cells have granted to its containers, by name. Empty for a pod that has not run. */
export function grantedResources(
  status: PodStatus | undefined,
): ReadonlyMap<string, NonNullable<ContainerStatus["resources"]>> {
  const { initContainerStatuses = [], containerStatuses = [] } = status ?? {};
  return new Map(
    [...initContainerStatuses, ...containerStatuses].flatMap(({ name, resources }) =>
      resources ? [[name, resources] as const] : [],
    ),
  );
}

/** The pod with its granted resources, as if larger ones had never been requested. */
export function withGrantedResources(pod: Pod, status: PodStatus | undefined): Pod {
  const granted = grantedResources(status);
  const had = (container: Container): Container => {
    const resources = granted.get(container.name);
    return resources ? { ...container, resources } : container;
  };
  const { initContainers, containers } = pod.spec;
  const spec = {
    ...pod.spec,
    ...(initContainers && { initContainers: initContainers.map(had) }),
    containers: containers.map(had),
  };
  return { ...pod, spec };
}
