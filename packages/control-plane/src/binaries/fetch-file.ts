import { createWriteStream } from "node:fs";
import { rename, rm, stat } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { pipeline } from "node:stream/promises";
import type { Clock } from "@kip/base";
import { ControlPlaneError } from "../errors.ts";
import { fileDigest } from "./binary-cache.ts";
import { rateLimited } from "./rate-limited.ts";
import { reasonOf, UnexpectedStatus, type ReleaseSites } from "./release-sites.ts";

/** Settings for all downloads. */
export interface FetchSettings {
  readonly sites: ReleaseSites;
  readonly clock: Clock;
  readonly onProgress: (line: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/** A file to download. */
export interface FileRequest extends FetchSettings {
  readonly url: string;
  /** Final path of the complete and verified file. Until then it is in `<path>.part`. */
  readonly path: string;
  /** Name for messages. */
  readonly name: string;
  /** SHA-256 or SHA-512, hexadecimal. */
  readonly digest: string;
  /** Origin of the digest, for messages: "the pinned one". */
  readonly digestOrigin: string;
}

/** Limits before a download is given up: attempts in a row that receive nothing, and all attempts. */
const maxIdleAttempts = 3;
const maxAttempts = 30;
const firstPauseMs = 500;
/** Several times the size of the largest program. */
const maxFileBytes = 1e9;

/**
 * Downloads a file. Resumes after a broken connection, or after an earlier process was interrupted.
 *
 * @throws {ControlPlaneError} `DOWNLOAD_FAILED`, retryable, if the site does not deliver a complete file
 * @throws {ControlPlaneError} `DIGEST_MISMATCH` if the file is not the expected one; never retryable
 */
export async function fetchFile(request: FileRequest): Promise<void> {
  const { path, digest } = request;
  if ((await digestLike(digest, path)) === digest) return;
  const part = `${path}.part`;
  const isPatched = await download(request, part);
  let found = await digestLike(digest, part);
  if (found !== digest && isPatched) {
    // The pieces may come from different files. Download the file again in one piece to find out.
    await rm(part, { force: true });
    await download(request, part);
    found = await digestLike(digest, part);
  }
  if (found === digest) {
    await rename(part, path);
    return;
  }
  await rm(part, { force: true });
  const problem = `Cannot use "${request.url}": its digest is not ${request.digestOrigin}`;
  throw new ControlPlaneError("DIGEST_MISMATCH", problem, {
    remedy: "Something on the way changes downloads; name a directory of programs you trust",
    facts: { expected: digest, found },
  });
}

/**
 * Retries an operation, 0.5 s after an attempt that received something, and otherwise after 1 and 2 s. Gives up after three
 * attempts in a row that receive nothing, or at once if the site refuses.
 *
 * @param hasProgress whether the failed attempt received something
 * @throws {ControlPlaneError} `DOWNLOAD_FAILED`, retryable
 */
export async function withRetries<T>(
  { url, clock, signal }: Pick<FileRequest, "url" | "clock" | "signal">,
  action: () => Promise<T>,
  hasProgress: () => boolean = () => false,
): Promise<T> {
  let idle = 0;
  for (let attempt = 1; ; attempt++) {
    try {
      return await action();
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof ControlPlaneError) throw error;
      idle = hasProgress() ? 0 : idle + 1;
      if (isRefusal(error) || idle >= maxIdleAttempts || attempt >= maxAttempts)
        throw cannotDownload(url, reasonOf(error), error);
    }
    await clock.sleep(firstPauseMs * 2 ** idle, signal);
  }
}

/** Makes the error `DOWNLOAD_FAILED`. */
export function cannotDownload(url: string, reason: string, cause?: unknown): ControlPlaneError {
  const message = `Cannot download "${url}": ${reason}`;
  return new ControlPlaneError("DOWNLOAD_FAILED", message, { cause, retryable: true });
}

function isRefusal(error: unknown): boolean {
  return (
    error instanceof UnexpectedStatus &&
    error.status >= 400 &&
    error.status < 500 &&
    error.status !== 408 &&
    error.status !== 416 &&
    error.status !== 429
  );
}

/** Facts about the site's file, known from the first response on. */
interface RemoteFile {
  /** Strong entity tag. */
  etag?: string | undefined;
  /** Bytes. */
  size?: number | undefined;
}

/** Downloads the rest of a file. @returns whether the file consists of more than one piece */
async function download(request: FileRequest, part: string): Promise<boolean> {
  const remote: RemoteFile = {};
  const report = rateLimited(request);
  let isPatched = false;
  let gained = 0;
  await withRetries(
    request,
    async () => {
      gained = 0;
      const offset = await sizeOf(part);
      const response = await requestFrom(offset, { request, remote, part });
      const isRest = response?.statusCode !== 200;
      isPatched ||= isRest;
      if (response === undefined) return;
      if (offset === 0 || !isRest)
        request.onProgress(`Downloading ${request.name}${megabytes(remote.size, " (", ")")}`);
      else request.onProgress(`Resuming the download of ${request.name} at ${megabytes(offset)}`);
      let size = isRest ? offset : 0;
      const count = async function* (body: AsyncIterable<Buffer>) {
        for await (const bytes of body) {
          size += bytes.length;
          gained += bytes.length;
          if (size > maxFileBytes) throw cannotDownload(request.url, "it is too large");
          report(
            `Downloaded ${megabytes(size)}${megabytes(remote.size, " of ")} of ${request.name}`,
          );
          yield bytes;
        }
      };
      await pipeline(response, count, createWriteStream(part, { flags: isRest ? "a" : "w" }));
      if (remote.size !== undefined && size !== remote.size)
        throw new Error(`the file ended after ${size} of ${remote.size} bytes`);
    },
    () => gained > 0,
  );
  return isPatched;
}

/** Requests a file from an offset on. `undefined` if nothing is left. */
async function requestFrom(
  offset: number,
  { request, remote, part }: { request: FileRequest; remote: RemoteFile; part: string },
): Promise<IncomingMessage | undefined> {
  const range = {
    range: `bytes=${offset}-`,
    ...(remote.etag !== undefined && { "if-range": remote.etag }),
  };
  // The digest is that of the file itself, not of a compressed form.
  const headers = { "accept-encoding": "identity", ...(offset > 0 && range) };
  try {
    const response = await request.sites.get(request.url, headers, request.signal);
    const { headers: received, statusCode } = response;
    const etag = received.etag?.startsWith('"') === true ? received.etag : undefined;
    if (statusCode === 200) {
      const length = received["content-length"];
      remote.size = length === undefined ? undefined : Number(length);
      remote.etag = etag;
      return response;
    }
    const piece = /^bytes (\d+)-\d+\/(\d+)$/.exec(received["content-range"] ?? "");
    const isExpected = piece !== null && Number(piece[1]) === offset;
    const size = Number(piece?.[2]);
    if (isExpected && (remote.size ?? size) === size && (remote.etag ?? etag) === etag) {
      Object.assign(remote, { size, etag });
      return response;
    }
    response.destroy();
    await rm(part, { force: true });
    throw new Error("the server sent another piece than the requested one");
  } catch (error) {
    if (!(error instanceof UnexpectedStatus) || error.status !== 416) throw error;
    if (error.headers["content-range"] === `bytes */${offset}`) return undefined;
    await rm(part, { force: true });
    throw error;
  }
}

/** Digest of a file, with the same algorithm as the given digest. `undefined` if the file does not exist. */
async function digestLike(digest: string, path: string): Promise<string | undefined> {
  if ((await sizeOf(path)) === 0) return undefined;
  return await fileDigest(path, digest.length === 128 ? "sha512" : "sha256");
}

async function sizeOf(path: string): Promise<number> {
  return (await stat(path).catch(() => undefined))?.size ?? 0;
}

function megabytes(bytes: number | undefined, before = "", after = ""): string {
  return bytes === undefined ? "" : `${before}${Math.round(bytes / 1e6)} MB${after}`;
}
