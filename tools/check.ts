// npm run check: all checks that do not run the code, the fastest first.
import { spawnSync } from "node:child_process";

const steps: readonly (readonly [name: string, command: string, ...args: string[]])[] = [
  [
    "format",
    "prettier",
    "--check",
    "--cache",
    "--cache-strategy",
    "content",
    "--log-level",
    "warn",
    ".",
  ],
  ["types", "tsc", "-p", "."],
  ["lint", "oxlint", "--type-aware", "--deny-warnings"],
  ["layers", "node", "tools/check-layers.ts"],
  ["errors and docs", "node", "tools/check-errors.ts"],
  ["threats", "node", "tools/check-threats.ts"],
  ["links", "node", "tools/check-links.ts"],
  ["language", "node", "tools/check-language.ts"],
  ["scripts", "node", "tools/embed-scripts.ts", "--check"],
  ["generated types", "node", "tools/generate-kubernetes-types.ts", "--check"],
  ["pod fields", "node", "tools/generate-pod-compatibility.ts", "--check"],
  ["configuration", "node", "tools/generate-configuration.ts", "--check"],
  ["manifests", "node", "tools/generate-manifests.ts", "--check"],
  ["dead code", "knip", "--no-progress", "--no-config-hints"],
];

const failed = steps.filter(([name, command, ...args]) => {
  const start = performance.now();
  const { status } = spawnSync(command, args, { stdio: "inherit" });
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`${status === 0 ? "ok  " : "FAIL"} ${name} (${seconds} s)`);
  return status !== 0;
});
process.exitCode = failed.length === 0 ? 0 : 1;
