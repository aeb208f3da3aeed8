import { isAbsolute } from "node:path";
import type { DesiredImageSettings, DesiredLogs, DesiredRegistry } from "@kip/agent-api";
import { bytes, decode, defined, parseQuantity } from "@kip/base";
import { ProviderError } from "../errors.ts";
import {
  cellConfigKeys,
  decodeImages,
  decodeRegistries,
  imageSettings,
  registrySettings,
} from "./image-settings.ts";
import { logSettings } from "./log-settings.ts";

const { boolean, list, map, number, object, optional, string, unknownValue } = decode;
const strict = { unknownKeys: "reject" } as const;

/** A quantity or a plain number, as text. */
const quantity: decode.Decoder<string> = (value, path) => {
  const text = typeof value === "number" ? String(value) : string(value, path);
  parseQuantity(text);
  return text;
};

const absolutePath: decode.Decoder<string> = (value, path) => {
  const text = string(value, path);
  if (isAbsolute(text)) return text;
  throw new ProviderError("CONFIG_INVALID", `Cannot use ${path} "${text}": it is not absolute`, {
    remedy: "Write the whole path, from / on",
  });
};

const cells = object(
  {
    bootImageSpec: optional(map(string)),
    defaultInstanceType: optional(string),
    defaultVolumeSize: optional(quantity),
    standbyCells: optional(list(unknownValue)),
    cloudInitFile: optional(string),
    itzo: optional(unknownValue),
    extraCIDRs: optional(list(string)),
    extraSecurityGroups: optional(list(string)),
    nametag: optional(string),
    statusInterval: optional(number),
    healthcheck: optional(
      object(
        {
          status: optional(object({ healthyTimeout: optional(number) }, strict)),
          cloudAPI: optional(
            object({ healthyTimeout: optional(number), interval: optional(number) }, strict),
          ),
        },
        strict,
      ),
    ),
    privateIPOnly: optional(boolean),
    cellConfig: optional(map(string)),
    defaultIAMPermissions: optional(string),
    useCloudParameterStore: optional(boolean),
  },
  strict,
);

const kubelet = object(
  {
    cpu: optional(quantity),
    memory: optional(quantity),
    pods: optional(quantity),
    capacity: optional(map(quantity)),
    labels: optional(map(string)),
    containerLogMaxSize: optional(quantity),
    containerLogMaxFiles: optional(number),
    seccompProfileRoot: optional(absolutePath),
  },
  strict,
);

const document = object(
  {
    apiVersion: optional(string),
    kind: optional(string),
    etcd: optional(unknownValue),
    testing: optional(object({ controllerID: optional(string) }, strict)),
    cloud: map(unknownValue),
    cells: optional(cells),
    kubelet: optional(kubelet),
    registries: optional(decodeRegistries),
    images: optional(decodeImages),
  },
  strict,
);

/** Settings of an installation, from `provider.yaml`; defaults applied. */
export interface ProviderConfig {
  /** The one cloud chosen, with its own section, read by that cloud's driver. */
  readonly cloud: { readonly name: string; readonly settings: unknown };
  readonly controllerID: string | undefined;
  readonly bootImageSpec: Readonly<Record<string, string>>;
  readonly defaultInstanceType: string | undefined;
  /** @default 5 GiB */
  readonly defaultVolumeBytes: number;
  /** @default "kip" */
  readonly nametag: string;
  readonly privateIPOnly: boolean;
  /** How long a cell may be out of reach before its pod gets another one, milliseconds. @default 90,000 */
  readonly unreachableLimitMs: number;
  /** The configured part of the virtual node's capacity; for the rest see `nodeResources`. @default none */
  readonly capacity: Readonly<Record<string, string>>;
  /** Folder of the profiles of system calls that pods name. @default "/var/lib/kubelet/seccomp", the kubelet's */
  readonly seccompProfileRoot: string;
  readonly nodeLabels: Readonly<Record<string, string>>;
  /** Settings of registries that are sent to cells. */
  readonly registries: readonly DesiredRegistry[];
  /** Shared cache and proxies of cells, if configured. */
  readonly images: DesiredImageSettings | undefined;
  /** A file of `docker login` on kip's machine. */
  readonly dockerConfig: string | undefined;
  /** How much of each container's log cells keep. @default the agent's, 10 MiB and 5 files */
  readonly logs: DesiredLogs | undefined;
  /** Keys that were read but have no effect in this version, for a warning at start. */
  readonly withoutEffect: readonly string[];
}

const withoutEffect: readonly (keyof decode.Decoded<typeof cells>)[] = [
  "standbyCells",
  "cloudInitFile",
  "itzo",
  "extraCIDRs",
  "extraSecurityGroups",
  "statusInterval",
  "defaultIAMPermissions",
  "useCloudParameterStore",
];

/**
 * Reads the content of `provider.yaml` (already parsed from YAML or JSON). Key names are those of the
 * original Kip; `cloud.local`, `registries` and `images` are new.
 *
 * @throws {DecodeError} `DECODE_FAILED` naming the path and the nearest known key; `CONFIG_INVALID`
 */
export function decodeProviderConfig(value: unknown): ProviderConfig {
  const read = document(value, "");
  const section = read.cells ?? {};
  const { cpu, memory, pods, capacity = {}, labels = {}, ...logs } = read.kubelet ?? {};
  const healthy = section.healthcheck?.status?.healthyTimeout ?? 90;
  return {
    cloud: theCloud(read.cloud),
    controllerID: read.testing?.controllerID,
    bootImageSpec: section.bootImageSpec ?? {},
    defaultInstanceType: section.defaultInstanceType,
    defaultVolumeBytes: bytes(section.defaultVolumeSize ?? "5Gi"),
    nametag: section.nametag ?? "kip",
    privateIPOnly: section.privateIPOnly ?? false,
    unreachableLimitMs: healthy * 1000,
    capacity: { ...defined({ cpu, memory, pods }), ...capacity },
    nodeLabels: labels,
    seccompProfileRoot: read.kubelet?.seccompProfileRoot ?? "/var/lib/kubelet/seccomp",
    registries: registrySettings(read.registries ?? []),
    images: imageSettings(read.images ?? {}, section.cellConfig ?? {}),
    dockerConfig: read.images?.dockerConfig,
    logs: logSettings(logs),
    withoutEffect: keysWithoutEffect(read),
  };
}

function keysWithoutEffect({
  etcd,
  cells = {},
}: decode.Decoded<typeof document>): readonly string[] {
  const keys = withoutEffect.filter((key) => cells[key] !== undefined);
  const ofCells = Object.keys(cells.cellConfig ?? {}).filter(
    (key) => !cellConfigKeys.includes(key),
  );
  return [
    ...(etcd === undefined ? [] : ["etcd"]),
    ...keys.map((key) => `cells.${key}`),
    ...ofCells.map((key) => `cells.cellConfig.${key}`),
  ];
}

function theCloud(clouds: Readonly<Record<string, unknown>>): ProviderConfig["cloud"] {
  const names = Object.keys(clouds);
  const [name] = names;
  if (name === undefined || names.length > 1) {
    throw new ProviderError(
      "CONFIG_INVALID",
      `Cannot choose a cloud: "cloud" has ${names.length} sections`,
      {
        remedy: "Give exactly one of cloud.local, cloud.aws, cloud.gce, cloud.azure",
      },
    );
  }
  return { name, settings: clouds[name] ?? {} };
}
