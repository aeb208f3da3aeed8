import { posix } from "node:path";
import { cannotDownload, withRetries, type FetchSettings } from "./fetch-file.ts";
import { UnexpectedStatus } from "./release-sites.ts";

/** Several times the longest file. etcd's has 60 lines. */
const maxChecksumBytes = 64 * 1024;

/**
 * A file's digest, SHA-256 or SHA-512 in hexadecimal, as published by its project.
 *
 * @param file the file's URL
 * @param lists URLs of checksum files, with TLS. The first one that exists is used
 * @throws {ControlPlaneError} `DOWNLOAD_FAILED`, retryable
 */
export async function fetchChecksum(
  file: string,
  lists: readonly string[],
  settings: FetchSettings,
): Promise<string> {
  for (const url of lists) {
    if (!url.startsWith("https:"))
      throw cannotDownload(file, "a published checksum is trusted over TLS only");
    const text = await withRetries(
      { url, ...settings },
      async () => await fetchText(url, settings),
    );
    if (text === undefined) continue;
    const digest = findChecksum(text, posix.basename(new URL(file).pathname));
    if (digest !== undefined) return digest;
    throw cannotDownload(file, `"${url}" has no checksum of it`);
  }
  throw cannotDownload(file, "its site has no checksum of it");
}

/**
 * Finds a file's digest in the output format of `sha256sum` and `sha512sum`, or in a text that consists of a single digest.
 * `undefined` if there is none.
 */
export function findChecksum(text: string, fileName: string): string | undefined {
  const lines = text.trim().split(/\r?\n/);
  for (const line of lines) {
    const found = /^([\da-f]{128}|[\da-f]{64})(?:\s+\*?(\S+))?$/i.exec(line.trim());
    if (!found) continue;
    const [, digest = "", path] = found;
    const isOurs = path === undefined ? lines.length === 1 : posix.basename(path) === fileName;
    if (isOurs) return digest.toLowerCase();
  }
  return undefined;
}

/** `undefined` if the file does not exist. */
async function fetchText(
  url: string,
  { sites, signal }: FetchSettings,
): Promise<string | undefined> {
  try {
    const response = await sites.get(url, { "accept-encoding": "identity" }, signal);
    let text = "";
    for await (const piece of response.setEncoding("utf8")) {
      text += String(piece);
      if (text.length > maxChecksumBytes) throw new Error("the checksum file is too long");
    }
    return text;
  } catch (error) {
    if (error instanceof UnexpectedStatus && error.status === 404) return undefined;
    throw error;
  }
}
