import { createHash } from "node:crypto";
import { chmod, copyFile, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { decode, runCommand, type Logger } from "@kip/base";
import { cachedBuild } from "./build-cache.ts";
import { asBuildFailure } from "./build-failure.ts";
import { requireHostTools } from "./host-tools.ts";
import { runMmdebstrap } from "./mmdebstrap.ts";
import { writeOciLayout } from "./oci-layout.ts";
import { recipe, recipeDirectory } from "./recipe.ts";

/** Options of {@link buildDemoImage}. */
export interface BuildDemoImageOptions {
  /** Where the image is kept; made when it is missing. */
  readonly cacheDir: string;
  /** Gets one sentence at the start of each step that takes more than a second. */
  readonly onProgress?: ((message: string) => void) | undefined;
  /** @default silent */
  readonly logger?: Logger | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A container image in an OCI image layout. */
export interface DemoImage {
  /** Absolute path of the layout directory (`oci-layout`, `index.json`, `blobs/sha256`). */
  readonly layoutDir: string;
  /** Digest of the manifest, `sha256:...`; the same inputs give the same digest. */
  readonly digest: string;
  /** Tag of the manifest in `index.json` (`org.opencontainers.image.ref.name`). */
  readonly tag: string;
}

const tag = "latest";
const decodeIndex = decode.object({
  manifests: decode.list(decode.object({ digest: decode.string })),
});

/** What the image is; a change of it gives a new one. */
const image = {
  config: {
    Cmd: ["/bin/demo"],
    Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
    ExposedPorts: { "8080/tcp": {} },
    WorkingDir: "/",
    Labels: { "org.opencontainers.image.title": "kip demo" },
  },
  folders: ["bin", "dev", "etc", "proc", "root", "site", "sys", "tmp"],
  files: {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "site/index.html": "Hello\n",
  },
  /** Files of the recipe folder, by the name of the program. */
  scripts: { demo: "demo.sh", wget: "wget.sh" },
  /** Debian's static busybox as a shell would run its own wget, whatever is in the path. */
  shell: { package: "mksh", file: "usr/lib/x86_64-linux-musl/bin/mksh" },
} as const;

/**
 * Gives a small container image made of Debian's busybox and mksh: it prints a greeting, then serves HTTP on port 8080. It has
 * a shell and some 250 commands besides.
 *
 * @throws {CellImageError} `CELL_IMAGE_NOT_ROOT`, `CELL_IMAGE_TOOLS_MISSING`, `CELL_IMAGE_BUILD_FAILED`
 */
export async function buildDemoImage(options: BuildDemoImageOptions): Promise<DemoImage> {
  const { signal } = options;
  await requireHostTools(["mmdebstrap", "tar", "setpriv", "unshare", "flock"]);
  return await asBuildFailure("build the demo image", signal, async () => {
    const inputs = createHash("sha256");
    inputs.update(JSON.stringify([recipe.suite, recipe.revision, image]));
    for (const script of Object.values(image.scripts))
      inputs.update(await readFile(path.join(recipeDirectory, script)));
    const layoutDir = await cachedBuild({
      cacheDir: options.cacheDir,
      kind: "demo",
      key: inputs.digest("hex").slice(0, 16),
      signal,
      build: async (work) => {
        options.onProgress?.("Making the demo container image");
        await build(work, signal);
      },
    });
    const index = await readFile(path.join(layoutDir, "index.json"), "utf8");
    const [manifest] = decodeIndex(JSON.parse(index), "index.json").manifests;
    return { layoutDir, digest: manifest?.digest ?? "", tag };
  });
}

async function build(work: string, signal: AbortSignal | undefined): Promise<void> {
  const packages = path.join(work, "packages");
  const root = path.join(work, "root");
  await runMmdebstrap({
    root: packages,
    arguments: ["--variant=extract", `--include=busybox-static,${image.shell.package}`],
    signal,
  });
  await fillRoot(root, packages);
  const archive = path.join(work, "layer.tar");
  const reproducible = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"];
  await runCommand("tar", [...reproducible, "--format=ustar", "-cf", archive, "-C", root, "."]);
  const layer = await readFile(archive);
  for (const name of [packages, root, archive]) await rm(name, { recursive: true });
  await writeOciLayout(work, { layer, architecture: "amd64", config: image.config, tag });
}

async function fillRoot(root: string, packages: string): Promise<void> {
  const busybox = path.join(packages, "bin", "busybox");
  for (const name of image.folders)
    await mkdir(path.join(root, name), { recursive: true, mode: 0o755 });
  await chmod(path.join(root, "tmp"), 0o1777);
  await copyFile(busybox, path.join(root, "bin", "busybox"));
  await copyFile(path.join(packages, image.shell.file), path.join(root, "bin", "sh"));
  await chmod(path.join(root, "bin", "sh"), 0o755);
  const others = ["busybox", "sh", ...Object.keys(image.scripts)];
  const { stdout } = await runCommand(busybox, ["--list"]);
  for (const name of stdout.trim().split("\n"))
    if (!others.includes(name)) await symlink("busybox", path.join(root, "bin", name));
  for (const [name, script] of Object.entries(image.scripts)) {
    await copyFile(path.join(recipeDirectory, script), path.join(root, "bin", name));
    await chmod(path.join(root, "bin", name), 0o755);
  }
  for (const [name, content] of Object.entries(image.files))
    await writeFile(path.join(root, name), content, { mode: 0o644 });
}
