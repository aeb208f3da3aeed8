import { CloudInitError } from "../errors.ts";
import type { InstanceAddresses } from "../instance-data.ts";
import {
  emptyConfig,
  maxContentBytes,
  maxUserDataBytes,
  type CloudConfig,
} from "./cloud-config.ts";
import type { ConfigNote } from "./config-field.ts";
import { isGzip, unpackGzip } from "./gzip.ts";
import { readCloudConfig } from "./read-cloud-config.ts";

/** A problem or a skipped setting of a cloud-config, with its position. */
export interface PlacedConfigNote extends ConfigNote {
  /** From 1. */
  readonly line?: number | undefined;
  /** From 1. */
  readonly column?: number | undefined;
}

/** A cloud-config as written, with all problems and warnings. */
export interface CheckedCloudConfig {
  readonly config: CloudConfig;
  /** The parsed YAML. Undefined if the text is not valid YAML. */
  readonly value: unknown;
  readonly problems: readonly PlacedConfigNote[];
  readonly warnings: readonly PlacedConfigNote[];
  /** Position of a key or item, or of the deepest existing one on its path. Line 1 if the text is not valid YAML. */
  placeOf(path: ConfigNote["path"]): { readonly line: number; readonly column: number };
}

/** Options of {@link parseUserData}. */
export interface ParseUserDataOptions {
  /** Values for names such as `$private_ipv4`. @default names are not replaced */
  readonly addresses?: InstanceAddresses | undefined;
}

type Place = { readonly line: number; readonly column: number };

const header = "#cloud-config";

/**
 * Parses user data: a cloud-config in YAML (or JSON, which is YAML), a script, or a MIME message with several of these. Each
 * may be compressed by gzip. A cloud-config has `#cloud-config` as its first line, a script begins with `#!`.
 *
 * If there are several cloud-configs, a key in a later one replaces the same key in earlier ones, as in Canonical's cloud-init.
 * Invalid values are an error, whose message lists all of them.
 *
 * @throws {CloudInitError} `USER_DATA_INVALID`
 * @see https://cloudinit.readthedocs.io/en/latest/explanation/format.html
 */
export async function parseUserData(
  data: Uint8Array,
  options: ParseUserDataOptions = {},
): Promise<CloudConfig> {
  const body = unpack(data);
  if (body.length === 0) return emptyConfig;
  // Kip's user data is one cloud-config, for which no other module is loaded.
  if (isCloudConfig(body)) return await parseCloudConfig(body, options);
  if (startsWith(body, "#!")) return { ...emptyConfig, scripts: [body] };
  const { isMultipart, mimeParts } = await import("./mime-parts.ts");
  if (!isMultipart(body))
    throw invalid(
      `its first line is neither "${header}" nor "#!" nor the header of a MIME message`,
    );
  return await mergeParts(mimeParts(body), options);
}

/** Parses the text of a cloud-config and finds all problems. Never throws. */
export async function checkCloudConfig(
  text: string,
  options: ParseUserDataOptions = {},
): Promise<CheckedCloudConfig> {
  let document: { readonly value: unknown; placeOf(path: ConfigNote["path"]): Place };
  try {
    document = await readText(text);
  } catch (error) {
    const { line, column, reason } = error as Place & { readonly reason: string }; // it throws nothing else
    const problems = [{ path: [], message: reason, line, column }];
    const placeOf = (): Place => ({ line: 1, column: 1 });
    return { config: emptyConfig, value: undefined, problems, warnings: [], placeOf };
  }
  const { config, problems, warnings } = readCloudConfig(document.value, options.addresses);
  const placed = (note: ConfigNote): PlacedConfigNote =>
    note.path.length === 0 ? note : { ...note, ...document.placeOf(note.path) };
  return {
    config,
    value: document.value,
    problems: problems.map(placed),
    warnings: warnings.map(placed),
    placeOf: (path) => document.placeOf(path),
  };
}

async function readText(
  text: string,
): Promise<{ readonly value: unknown; placeOf(path: ConfigNote["path"]): Place }> {
  const { readYaml } = await import("../yaml/read-yaml.ts");
  return readYaml(text);
}

async function parseCloudConfig(
  body: Uint8Array,
  options: ParseUserDataOptions,
): Promise<CloudConfig> {
  const text = decodeText(body);
  const value = parseJson(text);
  if (value !== undefined) {
    const { config, problems, warnings } = readCloudConfig(value, options.addresses);
    // If there are mistakes, parse it again to get their lines.
    if (problems.length === 0)
      return { ...config, warnings: warnings.map(({ message }) => message) };
  }
  const { config, problems, warnings } = await checkCloudConfig(text, options);
  if (problems.length > 0) throw invalid(problems.map(placedText).join("; "));
  return { ...config, warnings: warnings.map(placedText) };
}

function placedText({ line, column, message }: PlacedConfigNote): string {
  return line === undefined ? message : `line ${line}, column ${column}: ${message}`;
}

/** Parses the format that kip writes: a header and one JSON object. Undefined for anything else. */
function parseJson(text: string): unknown {
  const lineEnd = text.indexOf("\n");
  const body = lineEnd < 0 ? "" : text.slice(lineEnd + 1);
  if (!body.trimStart().startsWith("{")) return undefined;
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

interface Part {
  readonly contentType: string;
  readonly body: Uint8Array;
}

async function mergeParts(
  parts: readonly Part[],
  options: ParseUserDataOptions,
): Promise<CloudConfig> {
  let merged = emptyConfig;
  let unpackedBytes = 0;
  for (const { contentType, body: packed } of parts) {
    const body = unpack(packed);
    unpackedBytes += body.length;
    if (unpackedBytes > maxContentBytes)
      throw invalid(`its parts have more than ${maxContentBytes} bytes together`);
    if (contentType === "text/cloud-config" || isCloudConfig(body))
      merged = replaced(merged, await parseCloudConfig(body, options));
    else if (contentType === "text/x-shellscript" || startsWith(body, "#!"))
      merged = { ...merged, scripts: [...merged.scripts, body] };
    else {
      const warning = `Skipped a part of the user data of type "${contentType.slice(0, 100)}"`;
      merged = { ...merged, warnings: [...merged.warnings, warning] };
    }
  }
  return merged;
}

/** Takes the later lists where they are not empty. */
function replaced(earlier: CloudConfig, later: CloudConfig): CloudConfig {
  const given = Object.entries(later).filter(
    ([, value]) => value !== undefined && value.length > 0,
  );
  return {
    ...earlier,
    ...Object.fromEntries(given),
    warnings: [...earlier.warnings, ...later.warnings],
  };
}

function isCloudConfig(body: Uint8Array): boolean {
  const lineEnd = body.indexOf(10);
  const firstLine = body.subarray(0, lineEnd < 0 ? body.length : lineEnd);
  return firstLine.length < 1000 && Buffer.from(firstLine).toString().trim() === header;
}

function startsWith(body: Uint8Array, text: string): boolean {
  return Buffer.from(body.subarray(0, text.length)).toString("latin1") === text;
}

function unpack(data: Uint8Array): Uint8Array {
  if (data.length > maxUserDataBytes) throw invalid(`it is larger than ${maxUserDataBytes} bytes`);
  if (!isGzip(data)) return data;
  const unpacked = unpackGzip(data, maxUserDataBytes);
  if (!unpacked)
    throw invalid(`it cannot be unpacked (damaged, or above ${maxUserDataBytes} bytes)`);
  return unpacked;
}

function decodeText(body: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch (cause) {
    throw invalid("it is not UTF-8", cause);
  }
}

function invalid(reason: string, cause?: unknown): CloudInitError {
  return new CloudInitError("USER_DATA_INVALID", `Cannot read user data: ${reason}`, { cause });
}
