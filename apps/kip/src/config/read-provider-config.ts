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

/** What the text of a `provider.yaml` gives. */
export interface ReadConfig {
  /** Undefined if there are problems. */
  readonly config: ProviderConfig | undefined;
  /** The parsed document, for comparisons with a later one. */
  readonly content: unknown;
  readonly problems: readonly PlacedNote[];
  readonly notices: readonly PlacedNote[];
}

/** Options of {@link readConfigText}. */
export interface ReadConfigTextOptions {
  /** Whether a cloud has to be named: a command that starts no machine takes a file without one. @default true */
  readonly needsCloud?: boolean | undefined;
}

/** What was read, with a cloud if it names none. */
function withAnyCloud(content: unknown): unknown {
  const isKeys = typeof content === "object" && !Array.isArray(content);
  return isKeys ? { cloud: { local: {} }, ...content } : content;
}

/** Reads the text of a `provider.yaml`, and finds all of its problems. Never throws. */
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

/** What a `provider.yaml` gives with the files that it names. */
export interface ReadConfigFiles extends ReadConfig {
  /** Those files besides it, whether or not they can be read. */
  readonly files: readonly string[];
}

/**
 * Reads a `provider.yaml` and the cloud-config that it names for cells.
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
    // With its content, so that a later one of the same path differs from it.
    content: withCloudInit(found.content, cloudInitText),
    problems: problems.map(placed),
    notices: [...found.notices, ...notices.map(placed)],
    files,
  };
}

function withCloudInit(content: unknown, text: string): unknown {
  const document = content as { readonly cells?: object } | null; // as the configuration that was read from it
  return { ...document, cells: { ...document?.cells, cloudInitFile: text } };
}

/** The clouds that the configuration names and that this version cannot use. */
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
 * The text of the file.
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

/** The error of a file with problems, all of which it names. */
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
