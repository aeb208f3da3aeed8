import { readFile } from "node:fs/promises";
import { decode, defined, OptionError } from "@kip/base";
import { parseYaml } from "../../config/parse-yaml.ts";
import { localRegistryHost } from "../cluster/layout.ts";

/** Sections of `provider.yaml` that the user of a local cluster may set. */
export interface UserSettings {
  readonly registries: readonly unknown[];
  readonly images?: unknown;
  /** Extended resources of instance types, and standby cells. */
  readonly cells?:
    { readonly extendedResources?: unknown; readonly standbyCells?: unknown } | undefined;
  /** Capacity and labels of the virtual node. */
  readonly kubelet?: Readonly<Record<string, unknown>> | undefined;
}

const sections = decode.object(
  {
    registries: decode.optional(decode.list(decode.unknownValue)),
    images: decode.optional(decode.unknownValue),
    cells: decode.optional(
      decode.object(
        {
          extendedResources: decode.optional(decode.unknownValue),
          standbyCells: decode.optional(decode.unknownValue),
        },
        { unknownKeys: "reject" },
      ),
    ),
    kubelet: decode.optional(decode.map(decode.unknownValue)),
  },
  { unknownKeys: "reject" },
);

/**
 * Reads the file of `--settings`, and checks it like the provider does.
 *
 * @throws {OptionError} `OPTION_INVALID`; `CONFIG_INVALID` and `DECODE_FAILED` for its content
 */
export async function readUserSettings(file: string): Promise<UserSettings> {
  const remedy = "Give a YAML file with the sections registries, images, cells and kubelet";
  const unreadable = (cause: unknown): OptionError =>
    new OptionError("OPTION_INVALID", `Cannot read --settings "${file}"`, { cause, remedy });
  const text = await readFile(file, "utf8").catch((cause: unknown) => {
    throw unreadable(cause);
  });
  const { content, problems } = parseYaml(text);
  for (const { line, message } of problems)
    throw unreadable(new SyntaxError(line === undefined ? message : `line ${line}: ${message}`));
  const { registries = [], ...others } = sections(content ?? {}, "");
  // Loaded on demand: most users have no such file.
  const { decodeProviderConfig } = await import("@kip/kip");
  const all = [{ host: localRegistryHost }, ...registries];
  decodeProviderConfig({ cloud: { local: {} }, registries: all, ...defined(others) });
  return { registries, ...defined(others) };
}
