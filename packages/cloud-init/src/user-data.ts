import { decode, nearest } from "@kip/base";
import { CloudInitError } from "./errors.ts";

/** A file that the user data asks for. */
export interface WriteFile {
  /** Absolute. */
  readonly path: string;
  readonly content: Uint8Array;
  /** Permission bits. @default 0o644 */
  readonly mode: number;
  /** `user` or `user:group`, names or numbers. @default root */
  readonly owner?: string | undefined;
}

/** User data as it is applied at a machine's start. */
export interface CloudConfig {
  readonly hostname?: string | undefined;
  readonly writeFiles: readonly WriteFile[];
  /** Run in this order, after everything else: a text goes to `sh -c`, a list is a program and its arguments. */
  readonly runCommands: readonly (string | readonly string[])[];
  /** Sentences about keys that were skipped. */
  readonly warnings: readonly string[];
}

/** Largest user data that is read, bytes, compressed and unpacked. EC2 gives 16 KiB, GCE 256 KiB. */
export const maxUserDataBytes = 1 << 20;

/** Largest content of all files together, bytes, unpacked: it is in memory until it is written. */
const maxContentBytes = 8 << 20;

/** Limits of the problems and warnings about one user data, and of the characters of a key that they quote. */
const maxSentences = 20;
const maxKeyLength = 100;

const header = "#cloud-config";
const keys = ["hostname", "write_files", "runcmd"] as const;

const decodeWriteFile = decode.object({
  path: decode.string,
  content: decode.optional(decode.string),
  owner: decode.optional(decode.string),
  permissions: decode.optional(decode.string),
  encoding: decode.optional(decode.string),
  append: decode.optional(decode.boolean),
  source: decode.optional(decode.unknownValue),
});

/**
 * Reads user data: `#cloud-config` on the first line, then one JSON object (which is YAML too); all of it may be gzipped.
 *
 * Unknown keys give a warning, because a fleet's user data may hold keys for other readers. Wrong values fail, all at
 * once: one message names each.
 *
 * @throws {CloudInitError} `USER_DATA_INVALID`; `USER_DATA_YAML_UNSUPPORTED` when the body is not JSON
 * @see https://cloudinit.readthedocs.io/en/latest/reference/modules.html
 */
export function parseUserData(data: Uint8Array): CloudConfig {
  const text = new TextDecoder().decode(unpack(data));
  const lineEnd = text.indexOf("\n");
  const firstLine = (lineEnd < 0 ? text : text.slice(0, lineEnd)).trim();
  const body = lineEnd < 0 ? "" : text.slice(lineEnd + 1).trim();
  if (firstLine !== header) throw invalid(`its first line is not "${header}"`);
  if (body === "") return { writeFiles: [], runCommands: [], warnings: [] };
  return readConfig(parseJson(body));
}

function readConfig(value: unknown): CloudConfig {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw invalid("its body is not an object");
  const source = value as Readonly<Record<string, unknown>>; // checked by the line above
  const problems: string[] = [];
  const hostname = attempt(problems, () =>
    decode.optional(decode.string)(source["hostname"], "hostname"),
  );
  const writeFiles: WriteFile[] = [];
  let contentBytes = 0;
  for (const [index, entry] of entries(source, "write_files", problems).entries()) {
    const file = attempt(problems, () => readWriteFile(entry, `write_files[${index}]`));
    if (!file) continue;
    writeFiles.push(file);
    contentBytes += file.content.length;
    // At once: what follows could be as large.
    if (contentBytes > maxContentBytes)
      throw invalid(`its files have more than ${maxContentBytes} bytes together`);
  }
  const runCommands = entries(source, "runcmd", problems).map((entry, index) =>
    attempt(problems, () => readCommand(entry, `runcmd[${index}]`)),
  );
  if (problems.length > 0) throw invalid(few(problems).join("; "));
  return {
    hostname,
    writeFiles,
    runCommands: runCommands.filter((command) => command !== undefined),
    warnings: few(
      Object.keys(source)
        .filter((key) => !keys.some((known) => known === key))
        .slice(0, maxSentences + 1)
        .map((key) => unknownKey(key.slice(0, maxKeyLength))),
    ),
  };
}

/** The first sentences, and a note if there are more. */
function few(sentences: readonly string[]): readonly string[] {
  return sentences.length <= maxSentences
    ? sentences
    : [...sentences.slice(0, maxSentences), "and more"];
}

function unknownKey(key: string): string {
  const near = nearest(key, keys);
  return `Skipped "${key}" of the user data: ${near === undefined ? "not known here" : `did you mean "${near}"?`}`;
}

function entries(
  source: Readonly<Record<string, unknown>>,
  key: string,
  problems: string[],
): readonly unknown[] {
  const list = decode.optional(decode.list(decode.unknownValue));
  return attempt(problems, () => list(source[key], key)) ?? [];
}

function attempt<T>(problems: string[], read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    problems.push(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

function readWriteFile(value: unknown, at: string): WriteFile {
  const file = decodeWriteFile(value, at);
  if (!file.path.startsWith("/") || file.path.endsWith("/") || file.path.includes("\0"))
    throw invalid(`"${at}.path" is not an absolute path of a file`);
  // Without what they ask for, the file would have another content than is meant.
  if (file.append === true || file.source !== undefined)
    throw invalid(`"${at}" has "append" or "source", which are not supported`);
  const permissions = file.permissions ?? "0644";
  if (!/^(0o?)?[0-7]{3,4}$/.test(permissions))
    throw invalid(`"${at}.permissions" is not an octal number such as "0644"`);
  return {
    path: file.path,
    content: decodeContent(file.content ?? "", file.encoding ?? "text/plain", at),
    mode: Number.parseInt(permissions.replace("o", ""), 8),
    owner: file.owner,
  };
}

function decodeContent(content: string, encoding: string, at: string): Uint8Array {
  switch (encoding) {
    case "text/plain":
      return Buffer.from(content);
    case "b64":
    case "base64":
      return decodeBase64(content, at);
    case "gz+b64":
    case "gzip+b64":
    case "gz+base64":
    case "gzip+base64":
      return gunzip(decodeBase64(content, at), `"${at}.content"`);
    default:
      throw invalid(`"${at}.encoding" is "${encoding}"; known are b64 and gz+b64`);
  }
}

function decodeBase64(content: string, at: string): Uint8Array {
  const plain = content.replaceAll(/\s/g, "");
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(plain)) throw invalid(`"${at}.content" is not base64`);
  return Buffer.from(plain, "base64");
}

function readCommand(value: unknown, at: string): string | readonly string[] {
  return typeof value === "string" ? value : decode.list(decode.string)(value, at);
}

function unpack(data: Uint8Array): Uint8Array {
  if (data.length > maxUserDataBytes) throw invalid(`it is larger than ${maxUserDataBytes} bytes`);
  return data[0] === 0x1f && data[1] === 0x8b ? gunzip(data, "it") : data;
}

function gunzip(data: Uint8Array, what: string): Uint8Array {
  try {
    // Loaded when it is needed: most user data is plain, and each module is a part of a cell's start.
    const { gunzipSync } = process.getBuiltinModule("node:zlib");
    return gunzipSync(data, { maxOutputLength: maxUserDataBytes });
  } catch (cause) {
    throw invalid(
      `${what} cannot be unpacked (damaged, or above ${maxUserDataBytes} bytes)`,
      cause,
    );
  }
}

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch (cause) {
    throw new CloudInitError(
      "USER_DATA_YAML_UNSUPPORTED",
      "Cannot read user data: its body is not JSON",
      {
        cause,
        remedy: "Write the cloud-config as one JSON object; other YAML is not read yet",
      },
    );
  }
}

function invalid(reason: string, cause?: unknown): CloudInitError {
  return new CloudInitError("USER_DATA_INVALID", `Cannot read user data: ${reason}`, { cause });
}
