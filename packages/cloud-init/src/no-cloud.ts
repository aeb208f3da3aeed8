import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { isSystemError } from "@kip/base";
import { maxUserDataBytes } from "./config/cloud-config.ts";
import { ConfigField, ConfigNotes, fieldOf } from "./config/config-field.ts";
import { CloudInitError } from "./errors.ts";
import type { DataSource, InstanceData } from "./instance-data.ts";

/**
 * Reads a mounted NoCloud seed: the files `meta-data` (a map in YAML or JSON) and `user-data`.
 *
 * @throws {CloudInitError} `SEED_INVALID`
 * @see https://cloudinit.readthedocs.io/en/latest/reference/datasources/nocloud.html
 */
export async function readNoCloudSeed(directory: string): Promise<InstanceData> {
  const metaData = await parse((await read("meta-data")).toString("utf8"));
  const userData = await read("user-data");
  const notes = new ConfigNotes();
  const root = new ConfigField(metaData, [], notes);
  const fields = root.entries() ?? new Map<string, ConfigField>();
  const instanceId = fieldOf(root, fields, "instance_id").line();
  const localHostname = fieldOf(root, fields, "local_hostname").line();
  const publicKeys = readPublicKeys(fieldOf(root, fields, "public_keys"));
  if (instanceId === undefined || instanceId === "" || notes.problems.length > 0)
    throw invalid("meta-data is not a map in YAML or JSON with an instance-id");
  return { userData, instanceId, localHostname, publicKeys };

  async function read(name: string): Promise<Buffer> {
    try {
      const data = await readFile(path.join(directory, name));
      if (data.length <= maxUserDataBytes) return data;
    } catch (cause) {
      if (name === "user-data" && isSystemError(cause, "ENOENT")) return Buffer.alloc(0);
      throw invalid(`the file "${name}" cannot be read`, cause);
    }
    throw invalid(`the file "${name}" has more than ${maxUserDataBytes} bytes`);
  }
}

/** A source for a NoCloud seed in a folder. It is available once the file `meta-data` exists. */
export function createNoCloudSource(directory: string): DataSource {
  return {
    name: "NoCloud",
    isAvailable: async () => await Promise.resolve(existsSync(path.join(directory, "meta-data"))),
    read: async () => await readNoCloudSeed(directory),
  };
}

/** Reads a list, or a map of names and keys. */
function readPublicKeys(field: ConfigField): readonly string[] {
  if (field.isAbsent) return [];
  const isMap = typeof field.value === "object" && !Array.isArray(field.value);
  const items = isMap ? [...(field.entries()?.values() ?? [])] : field.items();
  return items.flatMap((item) => item.line() ?? []);
}

async function parse(text: string): Promise<unknown> {
  try {
    return JSON.parse(text);
  } catch {
    // Kip's own clouds write JSON. The YAML parser is only loaded for other seeds.
  }
  try {
    const { readYaml } = await import("./yaml/read-yaml.ts");
    return readYaml(text).value;
  } catch (cause) {
    throw invalid("meta-data is neither YAML nor JSON", cause);
  }
}

function invalid(reason: string, cause?: unknown): CloudInitError {
  return new CloudInitError("SEED_INVALID", `Cannot read the seed: ${reason}`, { cause });
}
