import type { DesiredExtendedResource } from "@kip/agent-api";
import { parseQuantity } from "@kip/base";
import type { Container } from "@kip/k8s-types";
import { isExtendedResource } from "../selection/extended-resources.ts";
import type { ResourceAmounts } from "../selection/pod-requests.ts";

/** The extended resources that a container requests. The API server ensures that its requests equal its limits. */
export function containerExtendedResources({
  resources,
}: Pick<Container, "resources">): readonly DesiredExtendedResource[] | undefined {
  const limits = Object.entries(resources?.limits ?? {});
  return extendedResourceList(new Map(limits.map(([name, text]) => [name, parseQuantity(text)])));
}

/** The extended resources among these amounts. Undefined if there are none. */
export function extendedResourceList(
  amounts: ResourceAmounts,
): readonly DesiredExtendedResource[] | undefined {
  const list = [...amounts].flatMap(([resource, amount]) => {
    const count = Math.min(Math.ceil(amount), Number.MAX_SAFE_INTEGER);
    return isExtendedResource(resource) && count > 0 ? [{ resource, count }] : [];
  });
  return list.length === 0 ? undefined : list;
}
