import { defined } from "@kip/base";
import type { Pod, Volume } from "@kip/k8s-types";
import { fieldValue } from "../environment/field-reference.ts";
import { containerNamed, resourceValue } from "../environment/resource-reference.ts";
import type { VolumeFile } from "../pod-provider.ts";
import { ContentBudget } from "../references/content-budget.ts";
import {
  absent,
  copyBytes,
  isAbsent,
  nameOf,
  reference,
  unresolved,
  type Notify,
  type Reference,
  type ReferenceReader,
} from "../references/reference.ts";
import { credentialAccess } from "./credential-access.ts";
import type { PodCertificateSource, PodCredentials } from "./pod-certificates.ts";
import type { TrustAnchors } from "./trust-bundles.ts";
import type { TokenSource } from "./token-source.ts";

/** The sources for files of volumes. */
export interface VolumeSources {
  readonly pod: Pod;
  readonly references: ReferenceReader;
  readonly tokens: TokenSource;
  /** @default none: pods that need some wait */
  readonly trustAnchors?: TrustAnchors | undefined;
  /** @default none */
  readonly certificates?: PodCertificateSource | undefined;
  /** The node's resources for pods, for limits that are not set. */
  readonly allocatable: Readonly<Record<string, string>>;
  readonly notify: Notify;
  /** Shared by the pod's environment and all its volumes. @default a separate one */
  readonly budget?: ContentBudget | undefined;
}

/** The files of a volume, and when they must be created again. */
export interface VolumeContent {
  readonly files: readonly VolumeFile[];
  /** Milliseconds since the epoch. Absent if nothing in the volume expires. */
  readonly refreshAt?: number | undefined;
}

/** Permission bits of files in a volume without a mode. */
const defaultMode = 0o644;

type Projection = NonNullable<NonNullable<Volume["projected"]>["sources"]>[number];
type ObjectSource = {
  readonly items?: readonly {
    readonly key: string;
    readonly path: string;
    readonly mode?: number | undefined;
  }[];
  readonly optional?: boolean | undefined;
};
type DownwardItems = NonNullable<NonNullable<Volume["downwardAPI"]>["items"]>;

/**
 * The files in a configMap, secret, downwardAPI or projected volume. Undefined for other kinds of volumes. Errors have the
 * kubelet's messages.
 *
 * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if a mandatory object or key is missing or unreadable
 */
export async function volumeContent(
  volume: Volume,
  sources: VolumeSources,
): Promise<VolumeContent | undefined> {
  const projections = projectionsOf(volume);
  if (!projections) return undefined;
  const { mode, list } = projections;
  const budgeted = { ...sources, budget: sources.budget ?? new ContentBudget() };
  try {
    const files = new Map<string, VolumeFile>();
    let refreshAt: number | undefined;
    for (const [index, projection] of list.entries()) {
      const place = `${volume.name}/${index}`;
      const content = await projectionContent(projection, { mode, place, sources: budgeted });
      // A later source overrides an earlier one with the same path.
      for (const file of content.files) files.set(file.path, file);
      if (content.refreshAt !== undefined)
        refreshAt = Math.min(refreshAt ?? content.refreshAt, content.refreshAt);
    }
    return { files: [...files.values()], refreshAt };
  } catch (error) {
    const reason = error instanceof Error ? error.message : "";
    const message = `MountVolume.SetUp failed for volume "${volume.name}" : ${reason}`;
    sources.notify({ type: "Warning", reason: "FailedMount", message });
    throw isAbsent(error) ? absent(message) : unresolved(message, undefined, error);
  }
}

/** Treats all four kinds as projected volumes with one or more sources. */
function projectionsOf(
  volume: Volume,
): { readonly mode: number; readonly list: readonly Projection[] } | undefined {
  if (volume.configMap) {
    const { defaultMode: mode = defaultMode, ...configMap } = volume.configMap;
    return { mode, list: [{ configMap }] };
  }
  if (volume.secret) {
    const { defaultMode: mode = defaultMode, secretName, items, optional } = volume.secret;
    return { mode, list: [{ secret: defined({ name: secretName, items, optional }) }] };
  }
  if (volume.downwardAPI) {
    const { defaultMode: mode = defaultMode, ...downwardAPI } = volume.downwardAPI;
    return { mode, list: [{ downwardAPI }] };
  }
  if (!volume.projected) return undefined;
  return {
    mode: volume.projected.defaultMode ?? defaultMode,
    list: volume.projected.sources ?? [],
  };
}

async function projectionContent(
  projection: Projection,
  { mode, place, sources }: FileContext & { readonly place: string },
): Promise<VolumeContent> {
  const { configMap, secret, downwardAPI, serviceAccountToken } = projection;
  const { clusterTrustBundle, podCertificate } = projection;
  if (configMap) {
    const object = reference("ConfigMap", configMap);
    return { files: await objectFiles(object, configMap, { mode, sources }) };
  }
  if (secret) {
    const object = reference("Secret", secret);
    return { files: await objectFiles(object, secret, { mode, sources }) };
  }
  if (downwardAPI) return { files: downwardFiles(downwardAPI.items ?? [], mode, sources) };
  if (serviceAccountToken) {
    const { audience, expirationSeconds, path } = serviceAccountToken;
    const token = await sources.tokens.token({
      audience,
      expirationSeconds: expirationSeconds ?? 3600,
    });
    sources.budget.take(path.length + token.data.length);
    // Each lifetime and each audience needs a separate token, which is in memory as long as the pod exists.
    sources.budget.takeOwn(token.data);
    const file = { path, data: token.data, ...credentialAccess(sources.pod, mode) };
    return { files: [file], refreshAt: token.refreshAt };
  }
  if (clusterTrustBundle && sources.trustAnchors) {
    const data = await sources.trustAnchors.read(clusterTrustBundle);
    const { path } = clusterTrustBundle;
    sources.budget.take(path.length + data.length);
    // There may be as many selections as sources, each with separate bytes.
    sources.budget.takeOwn(data);
    return { files: [{ path, data, ...credentialAccess(sources.pod, mode) }] };
  }
  if (podCertificate && sources.certificates) {
    const found = await sources.certificates.read(place, podCertificate);
    return certificateFiles(podCertificate, found, { mode, sources });
  }
  const [kind = "nothing"] = Object.keys(projection);
  throw unresolved(`source "${kind}" is not supported by this node`);
}

type BudgetedSources = VolumeSources & { readonly budget: ContentBudget };

interface FileContext {
  readonly mode: number;
  readonly sources: BudgetedSources;
}

async function objectFiles(
  object: Reference,
  source: ObjectSource,
  { mode, sources }: FileContext,
): Promise<readonly VolumeFile[]> {
  const optional = source.optional === true;
  const content = await sources.references.read(object);
  if (!content) {
    if (optional) return [];
    throw absent(`${nameOf(object)} not found`);
  }
  const { budget } = sources;
  if (!source.items) {
    for (const [path, data] of content.bytes) {
      budget.take(path.length + data.length);
      budget.takeOwnEntry();
    }
    return [...content.bytes]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([path, data]) => ({ path, data, mode }));
  }
  return source.items.flatMap(({ key, path, mode: own }) => {
    const data = content.bytes.get(key);
    budget.take(path.length + (data?.length ?? 0));
    if (data) return [{ path, data, mode: own ?? mode }];
    if (optional) return [];
    const what =
      object.kind === "ConfigMap"
        ? "configmap references non-existent config"
        : "references non-existent secret";
    throw absent(`${what} key: ${key}`);
  });
}

/** Key and certificates in one file, or in two. */
function certificateFiles(
  source: NonNullable<Projection["podCertificate"]>,
  { key, chain, refreshAt }: PodCredentials,
  { mode, sources }: FileContext,
): VolumeContent {
  const { credentialBundlePath, keyPath, certificateChainPath } = source;
  const wanted = [
    [credentialBundlePath, key + chain],
    [keyPath, key],
    [certificateChainPath, chain],
  ] as const;
  const files = wanted.flatMap(([path = "", text]) => {
    if (path === "") return [];
    sources.budget.take(path.length + text.length);
    return [{ path, data: copyBytes(text), ...credentialAccess(sources.pod, mode) }];
  });
  return { files, refreshAt };
}

function downwardFiles(
  items: DownwardItems,
  mode: number,
  { pod, allocatable, budget }: BudgetedSources,
): readonly VolumeFile[] {
  return items.map((item) => {
    const { fieldRef, resourceFieldRef } = item;
    const container = containerNamed(pod, resourceFieldRef?.containerName ?? "");
    const text = fieldRef
      ? fieldValue(pod, fieldRef.fieldPath)
      : resourceFieldRef && container && resourceValue(container, resourceFieldRef, allocatable);
    if (text === undefined) {
      const what = fieldRef?.fieldPath ?? resourceFieldRef?.resource ?? item.path;
      throw unresolved(`unsupported field of the downward API: ${what}`);
    }
    budget.take(item.path.length + text.length);
    budget.takeOwn(text);
    return { path: item.path, data: copyBytes(text), mode: item.mode ?? mode };
  });
}
