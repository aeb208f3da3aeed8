import { createHash } from "node:crypto";
import { chmod, copyFile, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { type Architecture, decode, hostArchitecture, type Logger, runCommand } from "@kip/base";
import { cachedBuild } from "./build-cache.ts";
import { asBuildFailure } from "./build-failure.ts";
import { requireHostTools } from "./host-tools.ts";
import { runMmdebstrap } from "./mmdebstrap.ts";
import { writeOciLayout, type ImageLayer } from "./oci-layout.ts";
import { recipe, recipeDirectory } from "./recipe.ts";

/** Options of {@link buildDemoImage}. */
export interface BuildDemoImageOptions {
  /** Folder for the image. Created if it is missing. */
  readonly cacheDir: string;
  /** Architectures of the image. @default this computer's */
  readonly architectures?: readonly Architecture[] | undefined;
  /** Called with one sentence at the start of each step that takes more than a second. */
  readonly onProgress?: ((message: string) => void) | undefined;
  /** @default silent */
  readonly logger?: Logger | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A container image in an OCI image layout. */
export interface DemoImage {
  /** Absolute path of the layout directory (`oci-layout`, `index.json`, `blobs/sha256`). */
  readonly layoutDir: string;
  /** Digest of the manifest, or of the index for several architectures, `sha256:...`. The same inputs give the same digest. */
  readonly digest: string;
  /** The tag in `index.json` (`org.opencontainers.image.ref.name`). */
  readonly tag: string;
}

const tag = "latest";
const decodeIndex = decode.object({
  manifests: decode.list(decode.object({ digest: decode.string })),
});

/** The image's definition. A change gives a new image. */
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
  /** Files in the recipe folder, by program name. */
  scripts: { demo: "demo.sh", wget: "wget.sh" },
  /** Debian's static busybox has a shell that would run its own wget, whatever PATH says. This shell does not. */
  shell: {
    package: "mksh",
    files: {
      amd64: "usr/lib/x86_64-linux-musl/bin/mksh",
      arm64: "usr/lib/aarch64-linux-musl/bin/mksh",
    },
  },
} as const;

/**
 * Builds a small container image from Debian's busybox and mksh, or returns the existing one. It prints a greeting and serves
 * HTTP on port 8080. It also contains a shell and some 250 commands.
 *
 * @throws {CellImageError} `CELL_IMAGE_NOT_ROOT`, `CELL_IMAGE_TOOLS_MISSING`, `CELL_IMAGE_BUILD_FAILED`
 */
export async function buildDemoImage(options: BuildDemoImageOptions): Promise<DemoImage> {
  const { signal, architectures = [hostArchitecture] } = options;
  await requireHostTools(["mmdebstrap", "tar", "setpriv", "unshare", "flock"]);
  return await asBuildFailure("build the demo image", signal, async () => {
    const inputs = createHash("sha256");
    inputs.update(JSON.stringify([recipe.suite, recipe.revision, image, architectures]));
    for (const script of Object.values(image.scripts))
      inputs.update(await readFile(path.join(recipeDirectory, script)));
    const layoutDir = await cachedBuild({
      cacheDir: options.cacheDir,
      kind: "demo",
      key: inputs.digest("hex").slice(0, 16),
      signal,
      build: async (work) => {
        options.onProgress?.("Making the demo container image");
        await build(work, architectures, signal);
      },
    });
    const index = await readFile(path.join(layoutDir, "index.json"), "utf8");
    const [manifest] = decodeIndex(JSON.parse(index), "index.json").manifests;
    return { layoutDir, digest: manifest?.digest ?? "", tag };
  });
}

async function build(
  work: string,
  architectures: readonly Architecture[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const folder = (architecture: Architecture): string => path.join(work, architecture);
  for (const each of new Set([hostArchitecture, ...architectures]))
    await runMmdebstrap({
      root: folder(each),
      arguments: [
        "--variant=extract",
        `--architectures=${each}`,
        `--include=busybox-static,${image.shell.package}`,
      ],
      signal,
    });
  // All architectures have the same commands, and only this computer's busybox can be run to list them.
  const { stdout } = await runCommand(busyboxIn(folder(hostArchitecture)), ["--list"]);
  const commands = stdout.trim().split("\n");
  const layers: ImageLayer[] = [];
  for (const architecture of architectures) {
    const root = path.join(work, "root");
    await fillRoot(root, { architecture, packages: folder(architecture), commands });
    const archive = path.join(work, "layer.tar");
    const reproducible = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"];
    await runCommand("tar", [...reproducible, "--format=ustar", "-cf", archive, "-C", root, "."]);
    layers.push({ architecture, layer: await readFile(archive) });
    for (const name of [root, archive]) await rm(name, { recursive: true });
  }
  for (const each of new Set([hostArchitecture, ...architectures]))
    await rm(folder(each), { recursive: true });
  await writeOciLayout(work, { layers, config: image.config, tag });
}

function busyboxIn(packages: string): string {
  return path.join(packages, "bin", "busybox");
}

/** The content of an architecture's root. */
interface RootParts {
  readonly architecture: Architecture;
  /** Folder with the packages of this architecture. */
  readonly packages: string;
  readonly commands: readonly string[];
}

async function fillRoot(
  root: string,
  { architecture, packages, commands }: RootParts,
): Promise<void> {
  for (const name of image.folders)
    await mkdir(path.join(root, name), { recursive: true, mode: 0o755 });
  await chmod(path.join(root, "tmp"), 0o1777);
  await copyFile(busyboxIn(packages), path.join(root, "bin", "busybox"));
  await copyFile(
    path.join(packages, image.shell.files[architecture]),
    path.join(root, "bin", "sh"),
  );
  await chmod(path.join(root, "bin", "sh"), 0o755);
  const others = ["busybox", "sh", ...Object.keys(image.scripts)];
  for (const name of commands)
    if (!others.includes(name)) await symlink("busybox", path.join(root, "bin", name));
  for (const [name, script] of Object.entries(image.scripts)) {
    await copyFile(path.join(recipeDirectory, script), path.join(root, "bin", name));
    await chmod(path.join(root, "bin", name), 0o755);
  }
  for (const [name, content] of Object.entries(image.files))
    await writeFile(path.join(root, name), content, { mode: 0o644 });
}
