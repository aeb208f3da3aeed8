// A registry on this computer whose certificate only the cluster's settings trust, and these settings.
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import https from "node:https";
import path from "node:path";
import { CertificateAuthority } from "@kip/pki";
import { cluster as own } from "./cluster-number.ts";
import { tar, writeLayout, type RawEntry } from "@kip/testing";

/** Its address for cells: the host's address in the range of the tests' cluster, and a port that is opened for it. */
const address = own.hostAddress;
export const registryPort = own.hostPort;
export const registryHost = `${address}:${registryPort}`;
/** A registry that does not exist. Its images come from the mirror. */
export const mirroredHost = "images.test";
export const account = { username: "ann", password: "geheim" };

interface SettingsFile {
  readonly server: { readonly certificate: string; readonly key: string };
  readonly settings: object;
}

/** Writes the settings of the tests' cluster once for all test files. @returns the file for `kip up --settings` */
export async function writeSettings(folder: string): Promise<string> {
  const file = path.join(folder, "settings.yaml");
  const kubelet = {
    seccompProfileRoot: path.join(folder, "seccomp"),
    allowedUnsafeSysctls: ["kernel.sem", "net.core.*"],
  };
  // Only for one type, so that pods show that it was chosen.
  const cells = { extendedResources: { "local.small": { "example.com/card": 2 } } };
  const isThere =
    existsSync(file) &&
    readFileSync(file, "utf8").includes(JSON.stringify({ cells, kubelet }).slice(1, -1));
  if (isThere) return file;
  const validMs = 10 * 365 * 86_400_000;
  const authority = await CertificateAuthority.create({ commonName: "images", validMs });
  const server = await authority.issue({
    commonName: "images",
    ipAddresses: [address],
    usages: ["server"],
    validMs,
  });
  const registries = [
    { host: mirroredHost, mirrors: [`https://${registryHost}`] },
    { host: registryHost, ca: authority.certificate },
  ];
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(keyFile(folder), JSON.stringify(server), { mode: 0o600 });
  // JSON is also YAML. This file is written last, so the others are complete if it exists.
  writeFileSync(
    `${file}.new`,
    JSON.stringify({ registries, cells, kubelet } satisfies SettingsFile["settings"]),
  );
  renameSync(`${file}.new`, file);
  return file;
}

function keyFile(folder: string): string {
  return path.join(folder, "image-registry.json");
}

/** An image with one layer. */
export interface TestImage {
  readonly entries: readonly RawEntry[];
  /** The `config` object of the image configuration. */
  readonly config?: Record<string, unknown>;
}

/** A registry that the test serves. */
export interface ImageRegistry extends AsyncDisposable {
  /** `<method> <path> <user>` of each response with a body. */
  readonly served: string[];
}

/**
 * Serves images: below `open/` to all clients, and to {@link account} below `basic/` (by password) and `token/` (by token).
 *
 * @param images images by repository
 */
export async function startImageRegistry(
  folder: string,
  images: Readonly<Record<string, TestImage>>,
): Promise<ImageRegistry> {
  const layouts = path.join(folder, "layouts");
  for (const [name, { entries, config = {} }] of Object.entries(images))
    writeLayout(path.join(layouts, name), { layers: [tar(entries)], config });
  const { certificate, key } = JSON.parse(
    readFileSync(keyFile(folder), "utf8"),
  ) as SettingsFile["server"]; // in the format written above
  const served: string[] = [];
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    const url = new URL(request.url ?? "", `https://${registryHost}`);
    if (url.pathname === "/token") return answerToken(request, response);
    const [, repository = "", kind, id = ""] =
      /^\/v2\/(.+)\/(manifests|blobs)\/(.+)$/.exec(url.pathname) ?? [];
    const { authorization } = request.headers;
    const challenge = challengeOf(repository, authorization);
    if (challenge !== undefined) {
      response.writeHead(401, { "www-authenticate": challenge }).end();
      return;
    }
    const body = images[repository] && read(path.join(layouts, repository), id);
    served.push(`${request.method} ${url.pathname} ${authorization?.split(" ")[0] ?? "-"}`);
    if (!body) response.writeHead(404).end();
    else if (kind === "manifests")
      response.setHeader("content-type", "application/vnd.oci.image.manifest.v1+json").end(body);
    else response.end(body);
  };
  const server = https
    .createServer({ cert: certificate, key }, answer)
    .listen(registryPort, address);
  await once(server, "listening");
  return {
    served,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const basic = `Basic ${Buffer.from(`${account.username}:${account.password}`).toString("base64")}`;

function answerToken({ headers }: IncomingMessage, response: ServerResponse): void {
  if (headers.authorization === basic) response.end(JSON.stringify({ token: "good" }));
  else response.writeHead(401).end();
}

/** The challenge for a client without the required authorization. */
function challengeOf(repository: string, authorization: string | undefined): string | undefined {
  const [area] = repository.split("/");
  if (area === "basic" && authorization !== basic) return 'Basic realm="images"';
  if (area === "token" && authorization !== "Bearer good")
    return `Bearer realm="https://${registryHost}/token",service="images"`;
  return undefined;
}

function read(layout: string, id: string): Buffer | undefined {
  const index = JSON.parse(readFileSync(path.join(layout, "index.json"), "utf8")) as {
    manifests: { digest: string }[];
  }; // our own format
  const digest = id.startsWith("sha256:") ? id : (index.manifests[0]?.digest ?? "");
  try {
    return readFileSync(path.join(layout, "blobs/sha256", digest.replace("sha256:", "")));
  } catch {
    return undefined;
  }
}

const busyboxFile = "/bin/busybox";

/** A root file system with busybox. */
export function busyboxEntries(): readonly RawEntry[] {
  const { stdout } = spawnSync(busyboxFile, ["--list"], { encoding: "utf8" });
  const applets = stdout.trim().split("\n");
  return [
    { name: "bin/", type: "5" },
    { name: "tmp/", type: "5", mode: 0o1777 },
    { name: "bin/busybox", mode: 0o755, content: readFileSync(busyboxFile) },
    ...applets
      .filter((applet) => applet !== "busybox")
      .map((applet) => ({ name: `bin/${applet}`, type: "2", linkName: "busybox" })),
  ];
}

/** Programs of this computer and the libraries that they need, at their paths. */
export function programEntries(files: readonly string[]): readonly RawEntry[] {
  const paths = new Set(files);
  for (const file of files) {
    const { stdout } = spawnSync("ldd", [file], { encoding: "utf8" });
    for (const [library] of stdout.matchAll(/\/\S+/g)) paths.add(library);
  }
  return [...paths].map((file) => ({
    name: file.slice(1),
    mode: 0o755,
    content: readFileSync(file),
  }));
}
