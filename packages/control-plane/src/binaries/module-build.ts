import { mkdir, statfs } from "node:fs/promises";
import { join } from "node:path";
import { formatBytes, type Clock } from "@kip/base";
import { ControlPlaneError } from "../errors.ts";
import { runGo, type GoCommandOptions } from "./go-command.ts";
import type { ProgramName } from "./pinned-version.ts";

/** What to build, with what, and where. */
export interface BuildOptions {
  readonly kubernetes: string;
  /** Directory of the go.mod that pins everything. */
  readonly modulesDir: string;
  readonly go: string;
  /** Directory of this build, ours alone; an interrupted build goes on from what is in it. */
  readonly directory: string;
  readonly clock: Clock;
  readonly onProgress: (line: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/** Where each program's `main` is, and the file name that Go gives it. */
const mains: Readonly<Record<ProgramName, { readonly path: string; readonly file: string }>> = {
  etcd: { path: "go.etcd.io/etcd/server/v3", file: "server" },
  "kube-apiserver": { path: "k8s.io/kubernetes/cmd/kube-apiserver", file: "kube-apiserver" },
  "kube-controller-manager": {
    path: "k8s.io/kubernetes/cmd/kube-controller-manager",
    file: "kube-controller-manager",
  },
  "kube-scheduler": { path: "k8s.io/kubernetes/cmd/kube-scheduler", file: "kube-scheduler" },
  kubectl: { path: "k8s.io/kubernetes/cmd/kubectl", file: "kubectl" },
};
/** Object files of the build (3.1 GB) and the programs, rounded up. */
const neededBytes = 4.5e9;
const progressIntervalMs = 5000;
const minutes = "4 minutes on 2 cores";

/**
 * Builds all programs from their pinned modules, in one call: they share most packages, and Go
 * links one while it compiles the next.
 *
 * @returns path of each program in the directory
 * @throws {ControlPlaneError} `DISK_TOO_SMALL`, `GO_MISSING`, `GO_FAILED`
 */
export async function buildFromModules(
  options: BuildOptions,
): Promise<Readonly<Record<ProgramName, string>>> {
  const out = join(options.directory, "out");
  const temporary = join(options.directory, "tmp");
  await requireSpace(options.directory, out, temporary);
  const go = { ...goSettings(options, temporary), report: rateLimited(options) };
  const packages = await fetchModules(options, go);
  await compile(options, { go, out, packages });
  const built = Object.entries(mains).map(([name, main]) => [name, join(out, main.file)]);
  return Object.fromEntries(built) as Record<ProgramName, string>; // one entry per program
}

/** How Go is called, and where its progress goes. */
interface GoSettings extends Omit<GoCommandOptions, "onLine"> {
  readonly report: (line: string) => void;
}

function goSettings(options: BuildOptions, temporary: string): Omit<GoSettings, "report"> {
  return {
    go: options.go,
    directory: options.modulesDir,
    variables: {
      CGO_ENABLED: "0",
      // None of the user's own settings may change what is built.
      GOFLAGS: "",
      GOWORK: "off",
      GOTMPDIR: temporary,
      // Object files that nothing else needs; they go once the programs are built.
      GOCACHE: join(options.directory, "objects"),
    },
    signal: options.signal,
  };
}

/** Import paths of the programs. */
const mainPaths = Object.values(mains).map((main) => main.path);

/** Fetches the modules; returns how many packages the programs consist of, together. */
async function fetchModules(options: BuildOptions, go: GoSettings): Promise<number> {
  options.onProgress(`Fetching the modules of Kubernetes ${options.kubernetes}`);
  let modules = 0;
  const listed = await runGo(["list", "-deps", ...mainPaths], {
    ...go,
    onLine: (line) => {
      if (line.startsWith("go: downloading ")) go.report(`Fetched ${++modules} modules`);
    },
  });
  return listed.trim().split("\n").length;
}

interface Compilation {
  readonly go: GoSettings;
  /** Folder of the programs. */
  readonly out: string;
  /** How many packages there are at most: some are of earlier builds. */
  readonly packages: number;
}

async function compile(options: BuildOptions, { go, out, packages }: Compilation): Promise<void> {
  options.onProgress(`Compiling Kubernetes ${options.kubernetes}, about ${minutes} the first time`);
  let compiled = 0;
  const onLine = (line: string): void => {
    if (line.startsWith("go: ")) return;
    compiled++;
    const program = Object.entries(mains).find(([, main]) => main.path === line);
    if (program) options.onProgress(`Linking ${program[0]}`);
    else go.report(`Compiled ${compiled} packages, ${packages} at most`);
  };
  const flags = ["-v", "-trimpath", "-buildvcs=false", "-mod=readonly"];
  const results = [`-ldflags=${linkerFlags(options.kubernetes)}`, `-o=${out}/`];
  await runGo(["build", ...flags, ...results, ...mainPaths], { ...go, onLine });
}

/** The version that programs tell of themselves, as upstream's build sets it; no debug data. */
function linkerFlags(version: string): string {
  const [major, minor] = version.replace(/^v/, "").split(".");
  const values = { gitVersion: version, gitMajor: major, gitMinor: minor, gitTreeState: "clean" };
  const settings = Object.entries(values).map(
    ([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`,
  );
  return ["-s", "-w", ...settings].join(" ");
}

async function requireSpace(directory: string, ...children: readonly string[]): Promise<void> {
  for (const child of children) await mkdir(child, { recursive: true });
  const { bavail, bsize } = await statfs(directory);
  const free = bavail * bsize;
  if (free >= neededBytes) return;
  throw new ControlPlaneError(
    "DISK_TOO_SMALL",
    `Cannot build Kubernetes in "${directory}": ${formatBytes(free)} are free, ` +
      `${formatBytes(neededBytes)} are needed while it is built`,
    { remedy: "Free some space, or choose another cache directory" },
  );
}

function rateLimited({ clock, onProgress }: BuildOptions): (line: string) => void {
  let last = clock.monotonic();
  return (line) => {
    if (clock.monotonic() - last < progressIntervalMs) return;
    last = clock.monotonic();
    onProgress(line);
  };
}
