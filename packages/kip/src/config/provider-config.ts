import type { DesiredImageSettings, DesiredLogs, DesiredRegistry } from "@kip/agent-api";
import { bytes, defined } from "@kip/base";
import { ProviderError } from "../errors.ts";
import type { ExtendedResources } from "../selection/extended-resources.ts";
import type { StandbyPool } from "../selection/standby-spec.ts";
import type { CellCloudInit } from "./cell-cloud-init.ts";
import { conflicts, withoutEffect } from "./conflicts.ts";
import { imageSettings, registrySettings } from "./image-settings.ts";
import type { cloudKeys } from "./keys/cloud-keys.ts";
import type { Read } from "./keys/key.ts";
import { providerKeys } from "./keys/provider-keys.ts";
import { pathText, readKey, type KeyNote } from "./keys/read-keys.ts";

/** The content of `provider.yaml` as written, with checked types. */
export type ProviderDocument = Read<typeof providerKeys>;

/** Settings of the local cloud, without defaults. */
export type LocalCloudSettings = NonNullable<Read<typeof cloudKeys>["local"]>;

/** Settings of AWS, without defaults. */
export type AwsCloudSettings = NonNullable<Read<typeof cloudKeys>["aws"]>;

/** Settings of an installation from `provider.yaml`, with defaults. */
export interface ProviderConfig {
  /** The one cloud chosen. */
  readonly cloud: {
    readonly name: "local" | "aws" | "gce" | "azure";
    /** Settings of the local cloud. Empty for other clouds. */
    readonly local: LocalCloudSettings;
    /** Settings of AWS. Empty for other clouds. */
    readonly aws: AwsCloudSettings;
  };
  /** Additional ranges that may reach cells, if the cloud has a firewall for cells. */
  readonly extraCIDRs: readonly string[];
  /** Additional firewall groups of cells, by the cloud's IDs. */
  readonly extraSecurityGroups: readonly string[];
  readonly controllerID: string | undefined;
  readonly bootImageSpec: Readonly<Record<string, string>>;
  /** Image specifications that pods may choose by name. */
  readonly bootImages: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Instance profile of cells, name or ARN, if the cloud has instance profiles. @default none */
  readonly defaultInstanceProfile: string | undefined;
  readonly defaultInstanceType: string | undefined;
  /** @default 5 GiB */
  readonly defaultVolumeBytes: number;
  /** File with a cloud-config for all cells. Whatever reads the configuration also has to read this file. */
  readonly cloudInitFile: string | undefined;
  /** Its content. */
  readonly cloudInit?: CellCloudInit | undefined;
  /** @default the ID of the installation */
  readonly nametag: string | undefined;
  readonly privateIPOnly: boolean;
  /** Pools of standby cells. @default none */
  readonly standbyCells: readonly StandbyPool[];
  /** Extended resources of instance types, by name pattern. @default none */
  readonly extendedResources: ExtendedResources;
  /** How long a cell may be unreachable before its pod gets another one, milliseconds. @default 90,000 */
  readonly unreachableLimitMs: number;
  /** How often to ask the cloud whether an unreachable cell is running, milliseconds. @default never: only the agent counts */
  readonly cloudHealthIntervalMs: number | undefined;
  /** The configured part of the virtual node's capacity; for the rest see `nodeResources`. @default none */
  readonly capacity: Readonly<Record<string, string>>;
  /** Folder of the seccomp profiles that pods may name. @default "/var/lib/kubelet/seccomp", the kubelet's */
  readonly seccompProfileRoot: string;
  /** Additional sysctls that pods may set: names, or prefixes with an asterisk. @default none */
  readonly allowedUnsafeSysctls: readonly string[];
  readonly nodeLabels: Readonly<Record<string, string>>;
  /** Settings of registries that are sent to cells. */
  readonly registries: readonly DesiredRegistry[];
  /** Shared cache and proxies of cells, if configured. */
  readonly images: DesiredImageSettings | undefined;
  /** A file of `docker login` on kip's machine. */
  readonly dockerConfig: string | undefined;
  /** Limits of each container's log on cells. @default the agent's, 10 MiB and 5 files */
  readonly logs: DesiredLogs | undefined;
}

/** Result of {@link checkProviderConfig}. */
export interface CheckedConfig {
  /** Undefined if there are problems. */
  readonly config: ProviderConfig | undefined;
  /** All problems: first those of single keys, then those between keys. */
  readonly problems: readonly KeyNote[];
  /** Notices for its author: keys without effect, and placeholders. */
  readonly notices: readonly KeyNote[];
}

/** Checks the content of `provider.yaml`, already parsed from YAML or JSON, and finds all problems at once. */
export function checkProviderConfig(content: unknown): CheckedConfig {
  const notes = { problems: [] as KeyNote[], notices: [] as KeyNote[] };
  const read = readKey(providerKeys, content ?? {}, { path: [], notes, root: providerKeys });
  // In the form of the table. Parts with a problem are missing, and are not checked below.
  const document = (read ?? {}) as ProviderDocument;
  const together = conflicts(document).filter(({ path }) =>
    // Parts that could not be read are missing. That does not count as another mistake.
    notes.problems.every((each) => !path.every((part, index) => each.path[index] === part)),
  );
  const problems = [...notes.problems, ...together];
  const config = problems.length === 0 ? toConfig(document) : undefined;
  return { config, problems, notices: [...notes.notices, ...withoutEffect(document)] };
}

/**
 * Reads the content of `provider.yaml`, already parsed from YAML or JSON.
 *
 * @throws {ProviderError} `CONFIG_INVALID` that lists all problems
 */
export function decodeProviderConfig(content: unknown): ProviderConfig {
  const { config, problems } = checkProviderConfig(content);
  if (config) return config;
  const [first] = problems;
  if (first && problems.length === 1)
    throw new ProviderError("CONFIG_INVALID", `Cannot use ${noteText(first)}`, {
      remedy: first.remedy,
    });
  throw new ProviderError(
    "CONFIG_INVALID",
    `Cannot use the configuration: ${problems.map(noteText).join("; ")}`,
  );
}

function noteText({ path, message }: KeyNote): string {
  return path.length === 0 ? `the configuration: ${message}` : `${pathText(path)}: ${message}`;
}

function toConfig(document: ProviderDocument): ProviderConfig {
  const { cells = {}, kubelet = {} } = document;
  return {
    cloud: theCloud(document.cloud ?? {}),
    extraCIDRs: cells.extraCIDRs ?? [],
    extraSecurityGroups: cells.extraSecurityGroups ?? [],
    controllerID: document.testing?.controllerID,
    bootImageSpec: cells.bootImageSpec ?? {},
    bootImages: cells.bootImages ?? {},
    defaultInstanceProfile: cells.defaultIAMPermissions,
    defaultInstanceType: cells.defaultInstanceType,
    defaultVolumeBytes: bytes(cells.defaultVolumeSize ?? "5Gi"),
    cloudInitFile: cells.cloudInitFile,
    nametag: cells.nametag,
    privateIPOnly: cells.privateIPOnly ?? false,
    standbyCells: (cells.standbyCells ?? []).map(standbyPool),
    extendedResources: cells.extendedResources ?? {},
    ...health(cells.healthcheck ?? {}),
    ...nodeSettings(kubelet),
    registries: registrySettings(document.registries ?? []),
    images: imageSettings(document.images ?? {}, cells.cellConfig ?? {}),
    dockerConfig: document.images?.dockerConfig,
  };
}

type Health = Pick<ProviderConfig, "unreachableLimitMs" | "cloudHealthIntervalMs">;

function health({
  status,
  cloudAPI,
}: NonNullable<NonNullable<ProviderDocument["cells"]>["healthcheck"]>): Health {
  const { healthyTimeout = cloudAPI ? 180 : 90 } = cloudAPI ?? status ?? {};
  return {
    unreachableLimitMs: healthyTimeout * 1000,
    cloudHealthIntervalMs: cloudAPI && (cloudAPI.interval ?? 60) * 1000,
  };
}

function standbyPool(
  pool: NonNullable<NonNullable<ProviderDocument["cells"]>["standbyCells"]>[number],
): StandbyPool {
  // Both are required.
  const { instanceType = "", count = 0, spot, dedicated, zone, privateIPOnly, bootImage } = pool;
  const launchType = spot === true ? "spot" : dedicated === true ? "dedicated" : "on-demand";
  return { instanceType, count, launchType, zone, privateIPOnly, bootImage };
}

function nodeSettings(
  kubelet: NonNullable<ProviderDocument["kubelet"]>,
): Pick<
  ProviderConfig,
  "capacity" | "nodeLabels" | "seccompProfileRoot" | "allowedUnsafeSysctls" | "logs"
> {
  const { cpu, memory, pods, capacity = {} } = kubelet;
  const { containerLogMaxSize: size, containerLogMaxFiles: files } = kubelet;
  const isSet = size !== undefined || files !== undefined;
  return {
    capacity: { ...defined({ cpu, memory, pods }), ...capacity },
    nodeLabels: kubelet.labels ?? {},
    seccompProfileRoot: kubelet.seccompProfileRoot ?? "/var/lib/kubelet/seccomp",
    allowedUnsafeSysctls: kubelet.allowedUnsafeSysctls ?? [],
    logs: isSet ? { maxFileBytes: bytes(size ?? "10Mi"), maxFiles: files ?? 5 } : undefined,
  };
}

function theCloud(cloud: NonNullable<ProviderDocument["cloud"]>): ProviderConfig["cloud"] {
  const names = ["local", "aws", "gce", "azure"] as const;
  const name = names.find((each) => cloud[each] !== undefined) ?? "local";
  return { name, local: cloud.local ?? {}, aws: cloud.aws ?? {} };
}
