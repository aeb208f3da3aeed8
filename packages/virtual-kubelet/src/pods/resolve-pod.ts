import type {
  Container,
  EphemeralContainer,
  Pod,
  Service,
  Volume,
  VolumeProjection,
} from "@kip/k8s-types";
import { containerEnv, type ContainerEnv, type EnvSources } from "../environment/container-env.ts";
import { serviceVariables } from "../environment/service-variables.ts";
import type { ResolvedPod, VolumeFile } from "../pod-provider.ts";
import { volumeContent, type VolumeContent, type VolumeSources } from "../volumes/volume-files.ts";
import { ContentBudget } from "../references/content-budget.ts";
import { isAbsent } from "../references/reference.ts";
import { hasBegun } from "./pod-facts.ts";
import { pullSecrets } from "./pull-secrets.ts";

/** The sources for resolving a pod's references. */
export interface ResolveSources
  extends Omit<EnvSources, "pod" | "services" | "budget">, Omit<VolumeSources, "pod" | "budget"> {
  /** Services of all namespaces, or at least of the pod's namespace and of "default". */
  readonly services: readonly Service[];
  /** Whether to resolve environment variables. @default true */
  readonly resolveEnv?: boolean | undefined;
  /** See `PodProvider.holdsBackContainers`. @default false */
  readonly holdsBackContainers?: boolean | undefined;
  /**
   * The pod's earlier content. It replaces that of deleted objects, because a running pod needs a new token even if its
   * ConfigMap is gone.
   */
  readonly previous?: ResolvedPod | undefined;
}

/**
 * Resolves all references of a pod: environment, files of its volumes, registry credentials.
 *
 * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if something mandatory is missing that the pod did not have before (an
 * event was recorded), or if the content exceeds 64 MiB. Not for the environment of a container that can be held back while
 * another one starts, and not for what a pod lacks that has started
 */
export async function resolvePod(pod: Pod, sources: ResolveSources): Promise<ResolvedPod> {
  const env = new Map<
    string,
    ResolvedPod["env"] extends ReadonlyMap<string, infer V> ? V : never
  >();
  const lateEnv = new Map<string, ReadonlyMap<string, string>>();
  const lateTemplates = new Map<string, ReadonlyMap<string, string>>();
  const fileEnv = new Map<string, ContainerEnv["files"]>();
  const missing = new Map<string, Error>();
  const budget = new ContentBudget();
  const services = serviceVariables(
    sources.services,
    pod.metadata.namespace,
    pod.spec.enableServiceLinks !== false,
  );
  for (const container of sources.resolveEnv === false ? [] : allContainers(pod)) {
    const resolved = await containerEnv(container, { ...sources, pod, services, budget })
      .catch(previousIfAbsent(previousEnv(sources.previous, container.name)))
      .catch((error: unknown) => {
        if (!(error instanceof Error && isAbsent(error))) throw error;
        missing.set(container.name, error);
      });
    if (!resolved) continue;
    env.set(container.name, resolved.env);
    if (resolved.late.size > 0) lateEnv.set(container.name, resolved.late);
    if (resolved.lateTemplates.size > 0) lateTemplates.set(container.name, resolved.lateTemplates);
    if (resolved.files.size > 0) fileEnv.set(container.name, resolved.files);
  }
  const [firstMissing] = missing.values();
  const canHoldBack = sources.holdsBackContainers === true;
  if (firstMissing && !(canHoldBack && (hasBegun(pod) || canBegin(pod, missing))))
    throw firstMissing;
  const files = new Map<string, readonly VolumeFile[]>();
  const missingFiles = new Set<string>();
  let refreshAt = Number.POSITIVE_INFINITY;
  for (const volume of pod.spec.volumes ?? []) {
    const content = await volumeContent(volume, { ...sources, pod, budget })
      .catch(previousIfAbsent(previousContent(sources.previous, volume)))
      .catch((error: unknown) => {
        if (!(canHoldBack && hasBegun(pod) && isAbsent(error))) throw error;
        missingFiles.add(volume.name);
        return undefined;
      });
    if (!content) continue;
    files.set(volume.name, content.files);
    refreshAt = Math.min(refreshAt, content.refreshAt ?? refreshAt);
  }
  return {
    pod,
    env,
    lateEnv,
    lateTemplates,
    fileEnv,
    missingEnv: firstMissing && new Map([...missing].map(([name, { message }]) => [name, message])),
    files,
    missingFiles: missingFiles.size > 0 ? missingFiles : undefined,
    pullSecrets: await pullSecrets(pod, sources.references, sources.notify),
    refreshAt: Number.isFinite(refreshAt) ? refreshAt : undefined,
  };
}

/** Whether a container can start without waiting for one that is held back. Otherwise a machine would wait for nothing. */
function canBegin({ spec }: Pod, heldBack: ReadonlyMap<string, unknown>): boolean {
  const [first] = spec.initContainers ?? [];
  const begin = first ? [first] : spec.containers;
  return begin.some(({ name }) => !heldBack.has(name));
}

/** Handles an error. The previous value replaces that of a missing object. Any other error is thrown. */
function previousIfAbsent<T>(previous: T | undefined): (error: unknown) => T {
  return (error) => {
    if (previous !== undefined && isAbsent(error)) return previous;
    throw error;
  };
}

function previousEnv(previous: ResolvedPod | undefined, name: string): ContainerEnv | undefined {
  const env = previous?.env.get(name);
  if (!env) return undefined;
  return {
    env,
    late: previous?.lateEnv.get(name) ?? new Map(),
    lateTemplates: previous?.lateTemplates?.get(name) ?? new Map(),
    files: previous?.fileEnv?.get(name) ?? new Map(),
  };
}

function previousContent(
  previous: ResolvedPod | undefined,
  { name, projected }: Volume,
): VolumeContent | undefined {
  const files = previous?.files.get(name);
  if (!files) return undefined;
  const hasEnd = ({ serviceAccountToken, podCertificate }: VolumeProjection): boolean =>
    serviceAccountToken !== undefined || podCertificate !== undefined;
  // Still due, so that its token is soon requested again.
  const refreshAt = projected?.sources?.some(hasEnd) === true ? previous?.refreshAt : undefined;
  return { files, refreshAt };
}

/** Init, regular and ephemeral containers, in this order. */
export function allContainers(pod: Pod): readonly (Container | EphemeralContainer)[] {
  const { initContainers = [], containers, ephemeralContainers = [] } = pod.spec;
  return [...initContainers, ...containers, ...ephemeralContainers];
}
