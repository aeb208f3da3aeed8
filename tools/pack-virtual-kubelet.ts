// Makes the npm package of the virtual kubelet library: JavaScript and declarations, with the packages of this
// repository that it stands on bundled in.
//   node tools/pack-virtual-kubelet.ts [folder]     writes the package's folder, and a tarball beside it
import { spawnSync } from "node:child_process";
import { cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";

interface PackageJson {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly exports: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
}

const root = path.join(import.meta.dirname, "..");
const main = "virtual-kubelet";
const bundled = ["base", "k8s-types", "pki", "k8s-client", "reconcile"];

/**
 * Builds the package into a folder.
 *
 * @returns path of the tarball
 */
export function packVirtualKubelet(folder: string): string {
  const emitted = path.join(folder, "emitted");
  const staged = path.join(folder, "package");
  rmSync(emitted, { recursive: true, force: true });
  rmSync(staged, { recursive: true, force: true });
  emit(folder, emitted);
  const externals = bundled.flatMap((name) => Object.entries(read(name).dependencies ?? {}));
  const own = read(main);
  writePackage(main, staged, emitted, {
    dependencies: Object.fromEntries(
      [...externals, ...Object.entries(own.dependencies ?? {})].sort(([a], [b]) =>
        a < b ? -1 : 1,
      ),
    ),
    bundleDependencies: bundled.map((name) => `@kip/${name}`),
  });
  for (const name of bundled)
    writePackage(name, path.join(staged, "node_modules/@kip", name), emitted, {});
  cpSync(path.join(root, "packages", main, "README.md"), path.join(staged, "README.md"));
  cpSync(path.join(root, "LICENSE"), path.join(staged, "LICENSE"));
  const packed = execute("npm", ["pack", "--json", "--pack-destination", folder], staged);
  const [{ filename = "" } = {}] = JSON.parse(packed) as { readonly filename?: string }[]; // npm's format
  rmSync(emitted, { recursive: true });
  return path.join(folder, filename.replace("@", "").replace("/", "-"));
}

/** Compiles the packages to JavaScript and declarations. */
function emit(folder: string, emitted: string): void {
  mkdirSync(folder, { recursive: true });
  const config = path.join(folder, "tsconfig.json");
  const files = [main, ...bundled].flatMap((name) =>
    globSync(path.join(root, "packages", name, "src/**/*.ts")).filter(
      (file) => !file.endsWith(".test.ts"),
    ),
  );
  const compilerOptions = {
    noEmit: false,
    declaration: true,
    rewriteRelativeImportExtensions: true,
    outDir: emitted,
    rootDir: path.join(root, "packages"),
    typeRoots: [path.join(root, "node_modules/@types")],
  };
  const extended = path.join(root, "tsconfig.json");
  writeFileSync(config, JSON.stringify({ extends: extended, compilerOptions, files, include: [] }));
  execute(path.join(root, "node_modules/.bin/tsc"), ["-p", config], root);
}

function writePackage(
  name: string,
  folder: string,
  emitted: string,
  more: Readonly<Record<string, unknown>>,
): void {
  const { name: fullName, version, description, license, exports, dependencies } = read(name);
  const built = Object.entries(exports).map(([entry, source]) => {
    const file = source.replace("./src/", "./dist/").replace(/\.ts$/, "");
    return [entry, { types: `${file}.d.ts`, default: `${file}.js` }] as const;
  });
  mkdirSync(folder, { recursive: true });
  cpSync(path.join(emitted, name, "src"), path.join(folder, "dist"), { recursive: true });
  const manifest = {
    name: fullName,
    version,
    description,
    license,
    type: "module",
    exports: Object.fromEntries(built),
    engines: { node: ">=24" },
    files: ["dist"],
    dependencies,
    ...more,
  };
  writeFileSync(path.join(folder, "package.json"), `${JSON.stringify(manifest, undefined, 2)}\n`);
}

function read(name: string): PackageJson {
  const file = path.join(root, "packages", name, "package.json");
  return JSON.parse(readFileSync(file, "utf8")) as PackageJson; // our own file
}

function execute(program: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} failed:\n${stdout}${stderr}`);
  return stdout;
}

if (import.meta.main)
  console.log(packVirtualKubelet(path.resolve(process.argv[2] ?? path.join(root, "dist"))));
