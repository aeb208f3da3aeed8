import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { runCommand } from "@kip/base";

/** A registry in this process with one image, of the machine's own busybox, under every name. */
export interface LoopbackRegistry extends AsyncDisposable {
  /** Host and port, as they stand in image names. */
  readonly host: string;
}

const manifestType = "application/vnd.oci.image.manifest.v1+json";

/** @param directory where its files go; the caller removes it */
export async function startLoopbackRegistry(directory: string): Promise<LoopbackRegistry> {
  const blobs = new Map<string, Buffer>();
  const add = (data: Buffer): { readonly digest: string; readonly size: number } => {
    const digest = digestOf(data);
    blobs.set(digest, data);
    return { digest, size: data.length };
  };
  const file = `${directory}/layer.tar`;
  // A program, a file, and a folder with links.
  await runCommand("tar", [
    "-C",
    "/",
    "-cf",
    file,
    "bin/busybox",
    "etc/passwd",
    "etc/alternatives",
  ]);
  const layer = readFileSync(file);
  const config = {
    architecture: process.arch === "x64" ? "amd64" : process.arch,
    os: "linux",
    config: { Env: ["PATH=/bin"] },
    rootfs: { type: "layers", diff_ids: [digestOf(layer)] },
  };
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: manifestType,
      config: {
        mediaType: "application/vnd.oci.image.config.v1+json",
        ...add(Buffer.from(JSON.stringify(config))),
      },
      layers: [
        {
          mediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
          ...add(gzipSync(layer, { level: 1 })),
        },
      ],
    }),
  );
  const server = http.createServer((request, response) => {
    const digest = request.url?.split("/blobs/")[1];
    const data = digest === undefined ? manifest : blobs.get(digest);
    const type = digest === undefined ? manifestType : "application/octet-stream";
    response.writeHead(data ? 200 : 404, { "content-type": type });
    response.end(data);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // it listens on TCP
  return {
    host: `127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function digestOf(data: Buffer): string {
  return `sha256:${createHash("sha256").update(data).digest("hex")}`;
}
