import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import http from "node:http";
import { gzipSync } from "node:zlib";
import { portOf, runCommand } from "@kip/base";

/** A registry in this process with one image, made from the machine's own busybox, under every name. */
export interface LoopbackRegistry extends AsyncDisposable {
  /** Host and port, as used in image names. */
  readonly host: string;
}

const manifestType = "application/vnd.oci.image.manifest.v1+json";

/** @param directory folder for its files, which the caller removes */
export async function startLoopbackRegistry(directory: string): Promise<LoopbackRegistry> {
  const { manifest, blobs } = makeImage(await readLayer(directory));
  const server = http.createServer((request, response) => {
    const digest = request.url?.split("/blobs/")[1];
    const data = digest === undefined ? manifest : blobs.get(digest);
    const type = digest === undefined ? manifestType : "application/octet-stream";
    response.writeHead(data ? 200 : 404, { "content-type": type });
    response.end(data);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const port = portOf(server);
  return {
    host: `127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A layer with a program, a file, and a folder with links. */
async function readLayer(directory: string): Promise<Buffer> {
  const file = `${directory}/layer.tar`;
  const content = ["bin/busybox", "etc/passwd", "etc/alternatives"];
  await runCommand("tar", ["-C", "/", "-cf", file, ...content]);
  return readFileSync(file);
}

function makeImage(layer: Buffer): {
  readonly manifest: Buffer;
  readonly blobs: ReadonlyMap<string, Buffer>;
} {
  const config = Buffer.from(
    JSON.stringify({
      architecture: process.arch === "x64" ? "amd64" : process.arch,
      os: "linux",
      config: { Env: ["PATH=/bin"] },
      rootfs: { type: "layers", diff_ids: [digestOf(layer)] },
    }),
  );
  const compressed = gzipSync(layer, { level: 1 });
  const entry = (mediaType: string, data: Buffer) => ({
    mediaType,
    digest: digestOf(data),
    size: data.length,
  });
  const manifest = {
    schemaVersion: 2,
    mediaType: manifestType,
    config: entry("application/vnd.oci.image.config.v1+json", config),
    layers: [entry("application/vnd.oci.image.layer.v1.tar+gzip", compressed)],
  };
  const blobs = new Map([config, compressed].map((data) => [digestOf(data), data]));
  return { manifest: Buffer.from(JSON.stringify(manifest)), blobs };
}

function digestOf(data: Buffer): string {
  return `sha256:${createHash("sha256").update(data).digest("hex")}`;
}
