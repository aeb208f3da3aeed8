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
  /** Where the image is kept; made when it is missing. */
  readonly cacheDir: string;
  /** Processors that it is for. @default that of this computer */
  readonly architectures?: readonly Architecture[] | undefined;
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
  /** Digest of the manifest, or of the index for several architectures, `sha256:...`; the same inputs give the same digest. */
  readonly digest: string;
  /** Its tag in `index.json` (`org.opencontainers.image.ref.name`). */
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
  shell: {
    package: "mksh",
    files: {
      amd64: "usr/lib/x86_64-linux-musl/bin/mksh",
      arm64: "usr/lib/aarch64-linux-musl/bin/mksh",
    },
  },
} as const;

/**
 * Gives a small container image made of Debian's busybox and mksh: it prints a greeting, then serves HTTP on port 8080. It has
 * a shell and some 250 commands besides.
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
  // All architectures have the same commands; that of this computer can be asked.
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

/** What the root of an architecture is made of. */
interface RootParts {
  readonly architecture: Architecture;
  /** Folder with the architecture's packages. */
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
