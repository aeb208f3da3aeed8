// Fills the folders for the layers of the image.
import { copyFileSync, cpSync, existsSync, globSync, mkdirSync, readFileSync } from "node:fs";
import { rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { runCommand } from "@kip/base";
import { bundleApplication, type BundleOptions } from "./bundle.ts";
import type { NpmClosure } from "./npm-closure.ts";
import { root } from "./recipe.ts";

/** Where the repository is in the image. */
export const installFolder = "opt/kip";

/** Files in the packages that a container does not need. Copyright files are kept. */
const unread = [
  "usr/share/{info,lintian,locale,man}",
  "usr/share/doc/*/!(copyright)",
  "usr/lib/*/gconv",
  "usr/sbin",
  "etc/{profile.d,skel,update-motd.d,ca-certificates}",
];

/** System files: libraries, certificate authorities, the user. */
export async function fillSystem(
  folder: string,
  packages: ReadonlyMap<string, string>,
  user: number,
): Promise<void> {
  const write = (name: string, text: string): void => {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), text);
  };
  for (const [name, file] of packages) {
    mkdirSync(folder, { recursive: true });
    await runCommand("dpkg-deb", ["--extract", file, folder]);
    // Scanners look here for the packages of images without dpkg.
    const { stdout } = await runCommand("dpkg-deb", ["--field", file]);
    write(`var/lib/dpkg/status.d/${name}`, stdout);
  }
  for (const name of unreadFiles(folder))
    rmSync(path.join(folder, name), { recursive: true, force: true });
  const authorities = globSync("usr/share/ca-certificates/**/*.crt", { cwd: folder }).sort();
  const texts = authorities.map((name) => readFileSync(path.join(folder, name), "utf8").trimEnd());
  write("etc/ssl/certs/ca-certificates.crt", `${texts.join("\n")}\n`);
  write("etc/nsswitch.conf", "hosts: files dns\n");
  write("etc/passwd", `root:x:0:0:root:/:/bin/false\nkip:x:${user}:${user}:kip:/:/bin/false\n`);
  write("etc/group", `root:x:0:\nkip:x:${user}:\n`);
  for (const name of ["tmp", "var/log/kip"])
    mkdirSync(path.join(folder, name), { recursive: true });
}

function unreadFiles(folder: string): readonly string[] {
  return unread.flatMap((pattern) => {
    if (!pattern.includes("!(")) return globSync(pattern, { cwd: folder });
    const all = globSync(pattern.replace(/!\(.*\)/, "*"), { cwd: folder });
    return all.filter((name) => path.basename(name) !== "copyright");
  });
}

/** Node and its licence. */
export function fillNode(folder: string, node: string): void {
  const files = { "bin/node": "usr/bin/node", LICENSE: "usr/share/doc/node/copyright" };
  for (const [from, to] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(folder, to)), { recursive: true });
    copyFileSync(path.join(node, from), path.join(folder, to));
  }
}

/** The npm packages as installed here, without files that only compilers and bundlers read. */
export function fillPackages(folder: string, { packages }: NpmClosure): void {
  const isRead = (file: string): boolean =>
    !/\.(?:[cm]?ts|map|md)$|\/dist-(?:es|types)(?:\/|$)/.test(file) || /LICEN[CS]E/i.test(file);
  for (const place of packages) {
    const from = path.join(root, place);
    const isOwn = (file: string): boolean => {
      const rest = path.relative(from, file);
      return !rest.split(path.sep).includes("node_modules") && isRead(file);
    };
    cpSync(from, path.join(folder, installFolder, place), { recursive: true, filter: isOwn });
  }
}

/** The program, and the files that it reads. */
export async function fillProgram(folder: string, options: BundleOptions): Promise<void> {
  const target = path.join(folder, installFolder);
  await bundleApplication(target, options);
  for (const workspace of options.closure.workspaces) {
    const data = path.join(root, workspace, "data");
    if (existsSync(data)) cpSync(data, path.join(target, workspace, "data"), { recursive: true });
  }
  // Marks the program as ES modules.
  const description = path.join(options.application, "package.json");
  for (const name of ["LICENSE", "package.json", description])
    copyFileSync(path.join(root, name), path.join(target, name));
}
