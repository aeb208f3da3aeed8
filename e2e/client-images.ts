// Images with programs that use the API server from a pod, by popular client libraries.
import assert from "node:assert/strict";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import type { RawEntry } from "@kip/testing";
import { run } from "./cluster.ts";
import { programEntries, type TestImage } from "./image-registry.ts";

const programs = path.join(import.meta.dirname, "programs");
const python = "/usr/bin/python3";

async function build(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<string> {
  const { status, stdout, stderr } = await run(command, args, { env, timeoutMs: 900_000 });
  assert.equal(status, 0, stdout + stderr);
  return stdout;
}

/** A program with client-go. Go caches its builds. */
export async function goClientImage(folder: string): Promise<TestImage> {
  const file = path.join(folder, "client-go");
  const source = path.join(programs, "client-go");
  await build(
    "go",
    ["build", "-C", source, "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, "."],
    {
      CGO_ENABLED: "0",
    },
  );
  return { entries: [{ name: "client", mode: 0o755, content: readFileSync(file) }] };
}

/** A Python program with this computer's Python and packages from PyPI. pip caches its downloads. */
export async function pythonClientImage(folder: string): Promise<TestImage> {
  const packages = path.join(folder, "client-python");
  const requirements = path.join(programs, "client-python", "requirements.txt");
  rmSync(packages, { recursive: true, force: true });
  const flags = ["--quiet", "--no-deps", "--no-compile", "--target", packages];
  await build(python, ["-m", "pip", "install", ...flags, "-r", requirements]);
  // On a cell, compiling would take a minute. The files get other times in the image, so times are not checked.
  const mode = ["--invalidation-mode", "unchecked-hash"];
  await build(python, ["-m", "compileall", "-q", ...mode, packages]);
  const ask = "import sys, sysconfig; print(sys.executable, sysconfig.get_path('stdlib'))";
  const [, library = ""] = (await build(python, ["-c", ask])).trim().split(" ");
  const own = folderEntries(library, library.slice(1));
  const ofClient = folderEntries(packages, "client");
  const isShared = ({ name }: RawEntry): boolean => name.endsWith(".so");
  const needing = [
    ...own.filter(isShared).map(({ name }) => `/${name}`),
    ...ofClient
      .filter(isShared)
      .map(({ name }) => path.join(packages, path.relative("client", name))),
  ];
  const script = readFileSync(path.join(programs, "client-python", "main.py"));
  return {
    entries: [
      ...programEntries([python, ...needing]).filter(
        ({ name }) => !`/${name}`.startsWith(packages),
      ),
      ...own.filter(({ name }) => !/\.(so|pyc)$/.test(name)),
      ...ofClient,
      { name: "client/main.py", content: script },
    ],
  };
}

/** The files of a folder that Python reads. */
function folderEntries(folder: string, name: string): readonly RawEntry[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(py|pyc|so|pem)$/.test(entry.name))
    .filter(({ parentPath }) => !/\/(test|idlelib|lib2to3)(\/|$)/.test(parentPath))
    .map((entry) => {
      const file = path.join(entry.parentPath, entry.name);
      return { name: path.join(name, path.relative(folder, file)), content: readFileSync(file) };
    });
}
