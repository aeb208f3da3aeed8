import { createHash } from "node:crypto";
import fs from "node:fs/promises";
import http from "node:http";
import type { AddressInfo } from "node:net";
import os from "node:os";
import path from "node:path";
import { runCommand } from "@kip/base";

const manifestType = "application/vnd.oci.image.manifest.v1+json";

/** A registry that has one image, `busybox`, under every tag. */
export interface TinyRegistry extends AsyncDisposable {
  readonly host: string;
  readonly endpoint: string;
}

/** Starts it with an image made from a static busybox. */
export async function startTinyRegistry(
  busybox: string,
  place: { readonly address: string; readonly port: number } = { address: "127.0.0.1", port: 0 },
): Promise<TinyRegistry> {
  const blobs = new Map<string, Buffer>();
  const add = (data: Buffer): { digest: string; size: number } => {
    const digest = `sha256:${createHash("sha256").update(data).digest("hex")}`;
    blobs.set(digest, data);
    return { digest, size: data.length };
  };
  const layer = await busyboxLayer(busybox);
  const architecture = process.arch === "x64" ? "amd64" : process.arch;
  const config = {
    architecture,
    os: "linux",
    config: { Env: ["PATH=/bin"], Cmd: ["sh"] },
    rootfs: { type: "layers", diff_ids: [add(layer).digest] },
  };
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: manifestType,
      config: {
        mediaType: "application/vnd.oci.image.config.v1+json",
        ...add(Buffer.from(JSON.stringify(config))),
      },
      layers: [{ mediaType: "application/vnd.oci.image.layer.v1.tar", ...add(layer) }],
    }),
  );
  const { digest } = add(manifest);
  const server = http.createServer((request, response) => {
    const [, , repository, kind, name = ""] = (request.url ?? "").split("/");
    const isManifest = kind === "manifests";
    const data = isManifest ? manifest : blobs.get(name);
    const isKnown = repository === "busybox" && data !== undefined;
    response.writeHead(isKnown || repository === "" ? 200 : 404, {
      "content-type": isManifest ? manifestType : "application/octet-stream",
      "content-length": isKnown ? data.length : 0,
      ...(isKnown && { "docker-content-digest": isManifest ? digest : name }),
    });
    response.end(isKnown && request.method !== "HEAD" ? data : undefined);
  });
  await new Promise<void>((resolve) => server.listen(place.port, place.address, resolve));
  const host = `${place.address}:${(server.address() as AddressInfo).port}`;
  return {
    host,
    endpoint: `http://${host}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function busyboxLayer(busybox: string): Promise<Buffer> {
  const root = await fs.mkdtemp(path.join(os.tmpdir(), "kip-image-"));
  try {
    // The image's root directory: other users than root must get in.
    await fs.chmod(root, 0o755);
    await fs.mkdir(path.join(root, "bin"));
    await fs.mkdir(path.join(root, "etc"));
    await fs.mkdir(path.join(root, "tmp"), { mode: 0o1777 });
    await fs.copyFile(busybox, path.join(root, "bin/busybox"));
    await fs.chmod(path.join(root, "bin/busybox"), 0o755);
    const { stdout } = await runCommand(busybox, ["--list"]);
    for (const name of stdout.trim().split("\n"))
      if (name !== "busybox") await fs.symlink("busybox", path.join(root, "bin", name));
    await fs.writeFile(path.join(root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n");
    const file = `${root}.tar`;
    await runCommand("tar", ["-C", root, "-cf", file, "."]);
    const data = await fs.readFile(file);
    await fs.rm(file);
    return data;
  } finally {
    await fs.rm(root, { recursive: true });
  }
}
