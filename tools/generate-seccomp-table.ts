// Makes packages/oci-runtime/test/containerd-calls.json: what containerd's default profile of system calls allows, which
// a test compares ours with. Needs Go and its module proxy; to be run when the version below is moved.
//   node tools/generate-seccomp-table.ts
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { runCommand } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { format } from "prettier";

const version = "v2.1.5";
const table = "packages/oci-runtime/test/containerd-calls.json";
const timeoutMs = 600_000;

interface Rule {
  readonly names: readonly string[];
  readonly action: string;
  readonly args?: readonly {
    readonly index: number;
    readonly value: number;
    readonly op: string;
  }[];
}

interface Profile {
  readonly architectures: readonly string[];
  readonly syscalls: readonly Rule[];
}

const profiles = await printedProfiles();
const content = Object.entries(profiles).map(([architecture, byCapability]) => {
  const none = byCapability[""];
  if (!none) throw new Error(`containerd ${version} gave no profile for ${architecture}`);
  const always = allowed(none);
  const more = Object.entries(byCapability).map(([capability, profile]) => [
    capability,
    allowed(profile).filter((call) => !always.includes(call)),
  ]);
  return [
    architecture,
    {
      architectures: [...none.architectures].sort(),
      always,
      conditional: none.syscalls
        .filter(({ args }) => args)
        .map(condition)
        .sort(),
      byCapability: Object.fromEntries(more.filter(([, calls]) => calls?.length !== 0)),
    },
  ];
});
const document = { containerd: version, ...Object.fromEntries(content) };
writeFileSync(table, await format(JSON.stringify(document), { parser: "json", printWidth: 120 }));

function allowed({ syscalls }: Profile): readonly string[] {
  const rules = syscalls.filter(({ action, args }) => action === "SCMP_ACT_ALLOW" && !args);
  return [...new Set(rules.flatMap(({ names }) => names))].sort();
}

/** One line for a rule with conditions on arguments. */
function condition({ names, args = [] }: Rule): string {
  return `${names.join()}: ${args.map(({ index, op, value }) => `${index} ${op} ${value}`).join()}`;
}

/** By architecture and capability. */
async function printedProfiles(): Promise<
  Readonly<Record<string, Readonly<Record<string, Profile>>>>
> {
  using folder = temporaryFolder();
  const cwd = folder.path;
  const module = "github.com/containerd/containerd/v2";
  writeFileSync(
    path.join(cwd, "go.mod"),
    `module profile\n\ngo 1.24.0\n\nrequire ${module} ${version}\n`,
  );
  const source = await runCommand("go", ["mod", "download", "-json", module], { cwd, timeoutMs });
  const { Dir } = JSON.parse(source.stdout) as { readonly Dir: string }; // documented by Go
  const profile = readFileSync(path.join(Dir, "contrib/seccomp/seccomp_default.go"), "utf8")
    .replaceAll("runtime.GOARCH", "Architecture")
    .replace('\t"runtime"\n', "")
    .replace(/^package \w+$/m, "package main");
  writeFileSync(path.join(cwd, "profile.go"), profile);
  copyFileSync(path.join(import.meta.dirname, "containerd/main.go"), path.join(cwd, "main.go"));
  await runCommand("go", ["mod", "tidy"], { cwd, timeoutMs });
  const { stdout } = await runCommand("go", ["run", "."], { cwd, timeoutMs });
  return JSON.parse(stdout) as Awaited<ReturnType<typeof printedProfiles>>; // printed by main.go
}
