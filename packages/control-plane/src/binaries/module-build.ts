import { mkdir, statfs } from "node:fs/promises";
import { join } from "node:path";
import { formatBytes, type Clock } from "@kip/base";
import { ControlPlaneError } from "../errors.ts";
import { runGo, type GoCommandOptions } from "./go-command.ts";
import { rateLimited } from "./rate-limited.ts";

/** Programs that are built together. */
export interface ProgramSources<Name extends string> {
  /** Their name and version, for messages: "Kubernetes v1.34.10". */
  readonly title: string;
  /** The package of each program, by the file name that Go gives it. */
  readonly mains: Readonly<Record<Name, ProgramSource>>;
  /** Variables that the linker sets, such as the version that programs report. */
  readonly variables: Readonly<Record<string, string>>;
  /** Disk space that the build needs for object files and programs, bytes. */
  readonly neededBytes: number;
  /** Duration of the build, for messages: "4 minutes on 2 cores". */
  readonly duration: string;
}

/** The package of a program. */
export interface ProgramSource {
  /** Import path. */
  readonly path: string;
  readonly file: string;
  /** Whether the program is a test binary: the package with its tests. @default false */
  readonly isTest?: boolean | undefined;
}

/** Options of {@link buildFromModules}. */
export interface BuildOptions<Name extends string> {
  readonly sources: ProgramSources<Name>;
  /** Directory of the go.mod that pins all versions. */
  readonly modulesDir: string;
  readonly go: string;
  /** Directory of this build, not shared. A build resumes from the files of an interrupted one. */
  readonly directory: string;
  readonly clock: Clock;
  readonly onProgress: (line: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Builds all programs from their pinned modules in one call of Go, and test binaries in a second one. The programs share most
 * packages, and Go links one program while it compiles the next.
 *
 * @returns path of each program in the directory
 * @throws {ControlPlaneError} `DISK_TOO_SMALL`, `GO_MISSING`, `GO_FAILED`
 */
export async function buildFromModules<Name extends string>(
  options: BuildOptions<Name>,
): Promise<Readonly<Record<Name, string>>> {
  const out = join(options.directory, "out");
  const temporary = join(options.directory, "tmp");
  await requireSpace(options, [out, temporary]);
  const go = { ...goSettings(options, temporary), report: rateLimited(options) };
  const packages = await fetchModules(options, go);
  await compile(options, { go, out, packages });
  const built = mainsOf(options).map(([name, main]) => [name, join(out, main.file)]);
  return Object.fromEntries(built) as Record<Name, string>; // one entry per program
}

/** Options of Go, and the receiver of its progress. */
interface GoSettings extends Omit<GoCommandOptions, "onLine"> {
  readonly report: (line: string) => void;
}

function goSettings(options: BuildOptions<string>, temporary: string): Omit<GoSettings, "report"> {
  return {
    go: options.go,
    directory: options.modulesDir,
    variables: {
      CGO_ENABLED: "0",
      // The user's own settings must not change the result.
      GOFLAGS: "",
      GOWORK: "off",
      GOTMPDIR: temporary,
      // Object files that are only needed for this build, and removed afterwards.
      GOCACHE: join(options.directory, "objects"),
    },
    signal: options.signal,
  };
}

function mainsOf({ sources }: BuildOptions<string>) {
  return Object.entries(sources.mains);
}

/** Import paths of the programs. */
function pathsOf(options: BuildOptions<string>, kind: "all" | "program" | "test" = "all") {
  return mainsOf(options)
    .filter(([, { isTest = false }]) => kind === "all" || isTest === (kind === "test"))
    .map(([, main]) => main.path);
}

/** Downloads the modules. @returns how many packages the programs consist of, together */
async function fetchModules(options: BuildOptions<string>, go: GoSettings): Promise<number> {
  options.onProgress(`Fetching the modules of ${options.sources.title}`);
  let modules = 0;
  const tests = pathsOf(options, "test").length > 0 ? ["-test"] : [];
  const listed = await runGo(["list", "-deps", ...tests, ...pathsOf(options)], {
    ...go,
    onLine: (line) => {
      if (line.startsWith("go: downloading ")) go.report(`Fetched ${++modules} modules`);
    },
  });
  return listed.trim().split("\n").length;
}

interface Compilation {
  readonly go: GoSettings;
  /** Folder for the programs. */
  readonly out: string;
  /** An upper bound for the number of packages. Some may already be compiled. */
  readonly packages: number;
}

async function compile(
  options: BuildOptions<string>,
  { go, out, packages }: Compilation,
): Promise<void> {
  const { title, duration, variables } = options.sources;
  options.onProgress(`Compiling ${title}, about ${duration} the first time`);
  let compiled = 0;
  const onLine = (line: string): void => {
    if (line.startsWith("go: ")) return;
    compiled++;
    const program = mainsOf(options).find(([, main]) => main.path === line);
    if (program) options.onProgress(`Linking ${program[0]}`);
    else go.report(`Compiled ${compiled} packages, ${packages} at most`);
  };
  const flags = ["-v", "-trimpath", "-buildvcs=false", "-mod=readonly"];
  const results = [`-ldflags=${linkerFlags(variables)}`, `-o=${out}/`];
  for (const [kind, command] of [
    ["program", ["build"]],
    ["test", ["test", "-c"]],
  ] as const) {
    const paths = pathsOf(options, kind);
    if (paths.length > 0)
      await runGo([...command, ...flags, ...results, ...paths], { ...go, onLine });
  }
}

/** Leaves out debug data. */
function linkerFlags(variables: Readonly<Record<string, string>>): string {
  const settings = Object.entries(variables).map(([name, value]) => `-X ${name}=${value}`);
  return ["-s", "-w", ...settings].join(" ");
}

async function requireSpace(
  { directory, sources }: BuildOptions<string>,
  children: readonly string[],
): Promise<void> {
  const { title, neededBytes } = sources;
  for (const child of children) await mkdir(child, { recursive: true });
  const { bavail, bsize } = await statfs(directory);
  const free = bavail * bsize;
  if (free >= neededBytes) return;
  throw new ControlPlaneError(
    "DISK_TOO_SMALL",
    `Cannot build ${title} in "${directory}": ${formatBytes(free)} are free, ` +
      `${formatBytes(neededBytes)} are needed while it is built`,
    { remedy: "Free some space, or choose another cache directory" },
  );
}
