import { readFile } from "node:fs/promises";
import path from "node:path";
import {
  checkProviderConfig,
  readCellCloudInit,
  type FileNote,
  type ProviderConfig,
} from "@kip/kip";
import { KipError } from "../errors.ts";
import { driverNames } from "./driver-names.ts";
import { parseYaml } from "./parse-yaml.ts";
import { noteText, placeNotes, type PlacedNote } from "./placed-notes.ts";

/** The result of reading a `provider.yaml`. */
export interface ReadConfig {
  /** Undefined if there are problems. */
  readonly config: ProviderConfig | undefined;
  /** The parsed document, to compare it with a later one. */
  readonly content: unknown;
  readonly problems: readonly PlacedNote[];
  readonly notices: readonly PlacedNote[];
}

/** Options of {@link readConfigText}. */
export interface ReadConfigTextOptions {
  /** Whether the configuration has to name a cloud. Commands that start no machines accept one without it. @default true */
  readonly needsCloud?: boolean | undefined;
}

/** Adds a cloud if the configuration names none. */
function withAnyCloud(content: unknown): unknown {
  const isKeys = typeof content === "object" && !Array.isArray(content);
  return isKeys ? { cloud: { local: {} }, ...content } : content;
}

/** Parses a `provider.yaml` and reports all of its problems. Never throws. */
export function readConfigText(
  text: string,
  { needsCloud = true }: ReadConfigTextOptions = {},
): ReadConfig {
  const { content, problems: yaml, lineOf } = parseYaml(text);
  if (yaml.length > 0) {
    const problems = yaml.map((each) => ({ ...each, path: "", remedy: undefined }));
    return { config: undefined, content, problems, notices: [] };
  }
  const { config, problems, notices } = checkProviderConfig(
    needsCloud ? content : withAnyCloud(content),
  );
  const all = [...problems, ...withoutDriver(content)];
  return {
    config: all.length === 0 ? config : undefined,
    content,
    problems: placeNotes(all, lineOf),
    notices: placeNotes(notices, lineOf),
  };
}

/** The result of reading a `provider.yaml` and the files that it names. */
export interface ReadConfigFiles extends ReadConfig {
  /** The named files, whether or not they can be read. */
  readonly files: readonly string[];
}

/**
 * Reads a `provider.yaml`, and the cloud-config for cells that it names.
 *
 * @throws {KipError} `CONFIG_INVALID` if the `provider.yaml` cannot be read
 */
export async function readConfigFiles(file: string): Promise<ReadConfigFiles> {
  const text = await readConfigFile(file);
  const found = readConfigText(text);
  const named = found.config?.cloudInitFile;
  if (!found.config || named === undefined) return { ...found, files: [] };
  const cloudInitFile = path.resolve(path.dirname(file), named);
  const files = [cloudInitFile];
  const cloudInitText = await readFile(cloudInitFile, "utf8").catch(() => undefined);
  if (cloudInitText === undefined) {
    const line = parseYaml(text).lineOf(["cells", "cloudInitFile"]);
    const message = `the file "${cloudInitFile}" cannot be read`;
    const problem = { line, path: "cells.cloudInitFile", message, remedy: undefined };
    return { ...found, config: undefined, problems: [problem], files };
  }
  const { cloudInit, problems, notices } = await readCellCloudInit(cloudInitText);
  const placed = (note: FileNote): PlacedNote => ({ ...note, file: cloudInitFile, path: "" });
  return {
    config: cloudInit && { ...found.config, cloudInit },
    // Includes the cloud-config's text, so that a change of that file counts as a change.
    content: withCloudInit(found.content, cloudInitText),
    problems: problems.map(placed),
    notices: [...found.notices, ...notices.map(placed)],
    files,
  };
}

function withCloudInit(content: unknown, text: string): unknown {
  const document = content as { readonly cells?: object } | null; // it was decoded as a configuration
  return { ...document, cells: { ...document?.cells, cloudInitFile: text } };
}

/** Problems for named clouds that this version has no driver for. */
function withoutDriver(content: unknown) {
  const cloud = (content as { readonly cloud?: unknown } | null)?.cloud;
  if (typeof cloud !== "object" || cloud === null) return [];
  return ["aws", "gce", "azure"]
    .filter((name) => Object.hasOwn(cloud, name) && !driverNames.includes(name))
    .map((name) => ({
      path: ["cloud", name],
      message: "this version has no driver for this cloud",
      remedy: `Use cloud.${driverNames.join(" or cloud.")}`,
    }));
}

/**
 * Reads the text of the file.
 *
 * @throws {KipError} `CONFIG_INVALID` if it cannot be read
 */
export async function readConfigFile(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    throw new KipError("CONFIG_INVALID", `Cannot read provider configuration "${file}"`, {
      cause,
      remedy: "Give the path of an existing file with --provider-config",
    });
  }
}

/** The error for a file with problems. It lists all of them. */
export function configError(file: string, problems: readonly PlacedNote[]): KipError {
  const [first] = problems;
  const subject = `Cannot use provider configuration "${file}"`;
  if (first && problems.length === 1) {
    const { remedy, ...note } = first;
    const message = noteText({ ...note, remedy: undefined }, { withLine: false });
    const place = note.file === undefined ? "" : `, "${note.file}"`;
    const line = note.line === undefined ? "" : `, line ${note.line}`;
    return new KipError("CONFIG_INVALID", `${subject}${place}${line}: ${message}`, { remedy });
  }
  return new KipError("CONFIG_INVALID", `${subject}: it has ${problems.length} problems`, {
    remedy: problems.map((note) => noteText(note)).join("\n"),
  });
}
