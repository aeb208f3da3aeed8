import { createWriteStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import http from "node:http";
import https from "node:https";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { formatBytes, runCommand, isSystemError } from "@kip/base";
import { ControlPlaneError } from "../errors.ts";
import { sha256 } from "./binary-cache.ts";
import type { ProgramName } from "./pinned-version.ts";
import type { ReleaseDigests } from "./release-digests.ts";

/** What to download, from where and to where. */
export interface DownloadOptions {
  readonly kubernetes: string;
  readonly etcd: string;
  /** Architecture in Go's spelling. */
  readonly architecture: string;
  readonly digests: ReleaseDigests;
  /** Empty directory, ours alone. */
  readonly directory: string;
  readonly onProgress: (line: string) => void;
  readonly signal?: AbortSignal | undefined;
  /** @default the projects' own sites */
  readonly sites?: { readonly kubernetes: string; readonly etcd: string } | undefined;
  /** Where HTTP_PROXY, HTTPS_PROXY and NO_PROXY are read, in capitals or small letters. @default no proxy */
  readonly env?: NodeJS.ProcessEnv | undefined;
}

const officialSites = {
  kubernetes: "https://dl.k8s.io/release",
  etcd: "https://github.com/etcd-io/etcd/releases/download",
};
/** Longest silence of a server, milliseconds: where there is no way out, the build comes next. */
const silenceMs = 5000;
const maxRedirects = 5;

/**
 * Downloads the programs of a release and checks each against its pinned digest.
 *
 * @returns path of each program in the directory
 * @throws {ControlPlaneError} `DOWNLOAD_FAILED`, retryable, if a site cannot be reached or answers no file
 * @throws {ControlPlaneError} `DIGEST_MISMATCH` if a file is not the pinned one; never retryable
 */
export async function downloadRelease(
  options: DownloadOptions,
): Promise<Readonly<Record<ProgramName, string>>> {
  const { kubernetes, etcd, architecture, digests, directory } = options;
  const sites = options.sites ?? officialSites;
  await mkdir(directory, { recursive: true });
  const program = async (name: keyof ReleaseDigests["kubernetes"]): Promise<string> => {
    const url = `${sites.kubernetes}/${kubernetes}/bin/linux/${architecture}/${name}`;
    return await fetchFile(url, { ...options, name, digest: digests.kubernetes[name] });
  };
  const archiveName = `etcd-${etcd}-linux-${architecture}`;
  const archive = await fetchFile(`${sites.etcd}/${etcd}/${archiveName}.tar.gz`, {
    ...options,
    name: "etcd.tar.gz",
    digest: digests.etcdArchive,
  });
  const strip = ["--strip-components=1", "--no-same-owner", `${archiveName}/etcd`];
  await runCommand("tar", ["-xzf", archive, "-C", directory, ...strip]);
  return {
    etcd: join(directory, "etcd"),
    "kube-apiserver": await program("kube-apiserver"),
    "kube-controller-manager": await program("kube-controller-manager"),
    "kube-scheduler": await program("kube-scheduler"),
    kubectl: await program("kubectl"),
  };
}

interface FetchOptions extends DownloadOptions {
  readonly name: string;
  readonly digest: string;
}

async function fetchFile(url: string, options: FetchOptions): Promise<string> {
  const path = join(options.directory, options.name);
  try {
    const response = await get(new URL(url), options);
    const size = Number(response.headers["content-length"] ?? 0);
    options.onProgress(`Downloading ${options.name} (${formatBytes(size)})`);
    await pipeline(response, createWriteStream(path));
  } catch (error) {
    options.signal?.throwIfAborted();
    const reason = isSystemError(error, "ENOTFOUND", "EAI_AGAIN")
      ? "there is no network"
      : "it failed";
    throw new ControlPlaneError("DOWNLOAD_FAILED", `Cannot download "${url}": ${reason}`, {
      cause: error,
      retryable: true,
    });
  }
  const found = await sha256(path);
  if (found === options.digest) return path;
  throw new ControlPlaneError("DIGEST_MISMATCH", `Cannot use "${url}": it is not the pinned file`, {
    remedy: "Something on the way changes downloads; name a directory of programs you trust",
    facts: { expected: options.digest, found },
  });
}

async function get(
  url: URL,
  { env, signal }: Pick<DownloadOptions, "env" | "signal">,
): Promise<IncomingMessage> {
  let next = url;
  for (let redirects = 0; redirects <= maxRedirects; redirects++) {
    const response = await getOnce(next, env, signal);
    const location = response.headers.location;
    if (response.statusCode === 200) return response;
    response.resume();
    if (location === undefined) throw new Error(`the server answered ${response.statusCode}`);
    next = new URL(location, next);
  }
  throw new Error("too many redirects");
}

async function getOnce(
  url: URL,
  proxyEnv: NodeJS.ProcessEnv | undefined,
  signal: AbortSignal | undefined,
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const options = { timeout: silenceMs, signal };
  const request =
    url.protocol === "http:"
      ? http.get(url, { ...options, agent: new http.Agent({ proxyEnv }) }, resolve)
      : https.get(url, { ...options, agent: new https.Agent({ proxyEnv }) }, resolve);
  request.on("timeout", () => request.destroy(new Error("the server does not answer")));
  request.on("error", reject);
  return await promise;
}
