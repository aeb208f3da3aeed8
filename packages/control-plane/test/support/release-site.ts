import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import {
  createServer as createPlainServer,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { createServer } from "node:https";
import { connect, type AddressInfo } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { runCommand } from "@kip/base";
import { pinned, ReleaseSites, type ReleaseSitesOptions } from "@kip/control-plane";
import { CertificateAuthority } from "@kip/pki";
import { temporaryFolder } from "@kip/testing";
import { corednsVersion } from "../../src/binaries/obtain-coredns.ts";

const architecture = process.arch === "arm64" ? "arm64" : "amd64";
const kubernetesPrograms = [
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
  "kubectl",
] as const;
const hour = 3_600_000;
const authority = await CertificateAuthority.create({ commonName: "site", validMs: hour });
const pair = await authority.issue({
  commonName: "site",
  dnsNames: ["releases.invalid"],
  ipAddresses: ["127.0.0.1"],
  usages: ["server"],
  validMs: hour,
});

/** How a site misbehaves for a request, instead of sending the file. */
export type Fault =
  /** Sends some bytes, then nothing more. */
  | { readonly kind: "stall"; readonly afterBytes: number }
  /** Sends some bytes, and closes the connection once they have arrived. */
  | { readonly kind: "cut"; readonly afterBytes: number; readonly until: () => Promise<void> }
  /** Claims that the file ends there. */
  | { readonly kind: "short"; readonly bytes: number }
  | { readonly kind: "status"; readonly status: number };

interface Options {
  /** Faults of a file, one for each request. After them, the file is sent. */
  readonly faults?: Readonly<Record<string, readonly Fault[]>>;
  /** Files that are sent with other content of the same length. */
  readonly changed?: readonly string[];
  readonly missing?: readonly string[];
  /** Whether redirects go to a URL without TLS. */
  readonly isInsecure?: boolean;
  /** @default the pinned one */
  readonly kubectlVersion?: string;
}

/**
 * An HTTPS site on loopback with the files of all three projects at the same paths as on the real sites. It uses redirects and
 * entity tags, and supports ranges.
 */
export async function openReleaseSite(options: Options = {}) {
  const { files, digests } = await makeRelease(options);
  const requests: { readonly name: string; readonly range: string | undefined }[] = [];
  const faults = new Map(
    Object.entries(options.faults ?? {}).map(([name, all]) => [name, [...all]]),
  );
  const redirectBase = options.isInsecure === true ? "http://127.0.0.1:9" : "";
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    const url = request.url ?? "";
    const name = url.slice(url.lastIndexOf("/") + 1);
    const file = files.get(url.replace(/^\/assets/, ""));
    if (!file) return void response.writeHead(404).end("Not Found");
    if (!url.startsWith("/assets"))
      return void response.writeHead(302, { location: `${redirectBase}/assets${url}` }).end();
    requests.push({ name, range: request.headers.range });
    sendFile({ file, fault: faults.get(name)?.shift(), request, response });
  };
  const server = createServer({ cert: pair.certificate, key: pair.key }, answer);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const sitesAt = (base: string, more: ReleaseSitesOptions = {}): ReleaseSites =>
    new ReleaseSites({
      urls: {
        kubernetes: `${base}/release`,
        etcd: `${base}/etcd-io/etcd/releases/download`,
        coredns: `${base}/coredns/coredns/releases/download`,
      },
      ca: authority.certificate,
      ...more,
    });
  return {
    port,
    sitesAt,
    sites: (more?: ReleaseSitesOptions) => sitesAt(`https://127.0.0.1:${port}`, more),
    /** Digests of all files, for pinning. */
    digests: { [architecture]: digests },
    /** Replaces a file, but not its checksum. */
    replace: (name: string, bytes: Buffer): void => {
      for (const path of files.keys()) if (path.endsWith(`/${name}`)) files.set(path, bytes);
    },
    fileOf: (name: string): Buffer =>
      [...files].find(([path]) => path.endsWith(`/${name}`))?.[1] ?? Buffer.alloc(0),
    /** The requested ranges, one entry for each request for that file. */
    rangesOf: (name: string) => requests.filter((all) => all.name === name).map((all) => all.range),
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      const closed = once(server, "close");
      server.close();
      await closed;
    },
  };
}

/** A proxy that connects every name to that port of this machine, and counts its connections. */
export async function openProxy(port: number) {
  const targets: string[] = [];
  const sockets: Duplex[] = [];
  const server = createPlainServer();
  server.on("connect", (request, socket) => {
    targets.push(request.url ?? "");
    sockets.push(socket);
    const upstream = connect(port, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      socket.pipe(upstream).pipe(socket);
    });
    upstream.on("error", () => socket.destroy());
    socket.on("error", () => upstream.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    targets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      const closed = once(server, "close");
      server.close();
      await closed;
    },
  };
}

interface Sending {
  readonly file: Buffer;
  readonly fault: Fault | undefined;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

function sendFile({ file, fault, request, response }: Sending): void {
  if (fault?.kind === "status") return void response.writeHead(fault.status).end();
  const etag = `"${sha(file, "sha256").slice(0, 16)}"`;
  const wanted = request.headers["if-range"] ?? etag;
  const range = /^bytes=(\d+)-$/.exec(request.headers.range ?? "");
  const isPiece = range !== null && wanted === etag;
  const offset = isPiece ? Number(range[1]) : 0;
  if (offset >= file.length)
    return void response.writeHead(416, { "content-range": `bytes */${file.length}` }).end();
  const rest = file.subarray(offset, fault?.kind === "short" ? fault.bytes : undefined);
  response.writeHead(isPiece ? 206 : 200, {
    etag,
    "content-length": rest.length,
    ...(isPiece && { "content-range": `bytes ${offset}-${file.length - 1}/${file.length}` }),
  });
  if (fault?.kind !== "cut" && fault?.kind !== "stall") return void response.end(rest);
  response.write(rest.subarray(0, fault.afterBytes));
  if (fault.kind === "cut") void fault.until().then(() => response.destroy());
}

/** Scripts of some 200 kB that report their version. */
export function program(says: string): Buffer {
  return Buffer.from(`#!/bin/sh\necho "${says}"\nexit\n${randomBytes(100_000).toString("hex")}\n`);
}

async function makeRelease(options: Options) {
  const { kubernetes, etcd } = pinned;
  const files = new Map<string, Buffer>();
  const digests: Record<string, string> = {};
  const put = (path: string, bytes: Buffer): void => {
    const name = path.slice(path.lastIndexOf("/") + 1);
    if (options.missing?.includes(name)) return;
    const changed = Buffer.from(bytes);
    if (options.changed?.includes(name)) changed.write("wrong", bytes.length - 10);
    files.set(path, changed);
  };
  for (const name of kubernetesPrograms) {
    const path = `/release/${kubernetes}/bin/linux/${architecture}/${name}`;
    const version = name === "kubectl" ? (options.kubectlVersion ?? kubernetes) : kubernetes;
    const bytes = program(`${name === "kubectl" ? "Client Version:" : "Kubernetes"} ${version}`);
    digests[name] = sha(bytes, "sha256");
    put(path, bytes);
    // Like the real ones: just a digest.
    put(`${path}.sha256`, Buffer.from(sha(bytes, "sha256")));
    put(`${path}.sha512`, Buffer.from(sha(bytes, "sha512")));
  }
  const etcdName = `etcd-${etcd}-linux-${architecture}`;
  const etcdProgram = program(`etcd Version: ${etcd.slice(1)}`);
  const etcdArchive = await archiveOf({ [`${etcdName}/etcd`]: etcdProgram });
  const etcdFolder = `/etcd-io/etcd/releases/download/${etcd}`;
  const other = `${"0".repeat(64)}  etcd-${etcd}-darwin-amd64.zip\n`;
  put(`${etcdFolder}/${etcdName}.tar.gz`, etcdArchive);
  const sums = `${other}${sha(etcdArchive, "sha256")}  ${etcdName}.tar.gz\n`;
  put(`${etcdFolder}/SHA256SUMS`, Buffer.from(sums));
  const corednsName = `coredns_${corednsVersion.slice(1)}_linux_${architecture}.tgz`;
  const coredns = await archiveOf({ coredns: program(`CoreDNS-${corednsVersion.slice(1)}`) });
  const corednsFolder = `/coredns/coredns/releases/download/${corednsVersion}`;
  put(`${corednsFolder}/${corednsName}`, coredns);
  const corednsSum = `${sha(coredns, "sha256")}  ${corednsName}\n`;
  put(`${corednsFolder}/${corednsName}.sha256`, Buffer.from(corednsSum));
  return {
    files,
    digests: {
      kubernetes: digests as Record<(typeof kubernetesPrograms)[number], string>, // one of each
      etcdArchive: sha(etcdArchive, "sha256"),
      corednsArchive: sha(coredns, "sha256"),
    },
  };
}

async function archiveOf(members: Readonly<Record<string, Buffer>>): Promise<Buffer> {
  using folder = temporaryFolder();
  for (const [path, bytes] of Object.entries(members)) {
    const file = join(folder.path, "in", path);
    await mkdir(join(file, ".."), { recursive: true });
    await writeFile(file, bytes, { mode: 0o755 });
  }
  const archive = join(folder.path, "archive");
  const names = Object.keys(members);
  assert.ok(names.length > 0);
  await runCommand("tar", ["-czf", archive, "-C", join(folder.path, "in"), ...names]);
  return await readFile(archive);
}

function sha(bytes: Uint8Array, algorithm: "sha256" | "sha512"): string {
  return createHash(algorithm).update(bytes).digest("hex");
}
