import type { Container, EphemeralContainer, Pod, Service } from "@kip/k8s-types";
import { containerEnv, type EnvSources } from "../environment/container-env.ts";
import { serviceVariables } from "../environment/service-variables.ts";
import type { ResolvedPod, VolumeFile } from "../pod-provider.ts";
import { volumeContent, type VolumeSources } from "../volumes/volume-files.ts";
import { pullSecrets } from "./pull-secrets.ts";

/** Where a pod's references are looked up. */
export interface ResolveSources
  extends Omit<EnvSources, "pod" | "services">, Omit<VolumeSources, "pod"> {
  /** Services of all namespaces, or at least of the pod's and of "default". */
  readonly services: readonly Service[];
  /** Whether environment variables are looked up. @default true */
  readonly resolveEnv?: boolean;
}

/**
 * Looks up everything a pod refers to: environment, files of its volumes, registry credentials.
 *
 * @throws {KipError} code `VK_UNRESOLVED` if something mandatory is missing; it was notified then
 */
export async function resolvePod(pod: Pod, sources: ResolveSources): Promise<ResolvedPod> {
  const env = new Map<
    string,
    ResolvedPod["env"] extends ReadonlyMap<string, infer V> ? V : never
  >();
  const lateEnv = new Map<string, ReadonlyMap<string, string>>();
  const lateTemplates = new Map<string, ReadonlyMap<string, string>>();
  const services = serviceVariables(
    sources.services,
    pod.metadata?.namespace ?? "",
    pod.spec?.enableServiceLinks !== false,
  );
  for (const container of sources.resolveEnv === false ? [] : allContainers(pod)) {
    const resolved = await containerEnv(container, { ...sources, pod, services });
    env.set(container.name, resolved.env);
    if (resolved.late.size > 0) lateEnv.set(container.name, resolved.late);
    if (resolved.lateTemplates.size > 0) lateTemplates.set(container.name, resolved.lateTemplates);
  }
  const files = new Map<string, readonly VolumeFile[]>();
  let refreshAt = Number.POSITIVE_INFINITY;
  for (const volume of pod.spec?.volumes ?? []) {
    const content = await volumeContent(volume, { ...sources, pod });
    if (!content) continue;
    files.set(volume.name, content.files);
    refreshAt = Math.min(refreshAt, content.refreshAt ?? refreshAt);
  }
  return {
    pod,
    env,
    lateEnv,
    lateTemplates,
    files,
    pullSecrets: await pullSecrets(pod, sources.references, sources.notify),
    ...(Number.isFinite(refreshAt) && { refreshAt }),
  };
}

/** Init, regular and ephemeral containers, in this order. */
export function allContainers(pod: Pod): readonly (Container | EphemeralContainer)[] {
  const { initContainers = [], containers = [], ephemeralContainers = [] } = pod.spec ?? {};
  return [...initContainers, ...containers, ...ephemeralContainers];
}
