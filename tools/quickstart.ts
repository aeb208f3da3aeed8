// From a clean clone to the logs of a pod that runs in its own virtual machine.
import { spawnSync } from "node:child_process";
import path from "node:path";

const root = path.join(import.meta.dirname, "..");
const kip = path.join(root, "apps/kip/bin/kip");
const args = process.argv.slice(2);

if (args.includes("--down")) {
  process.exitCode = run(kip, ["down", ...args.filter((arg) => arg !== "--down")]);
} else {
  process.exitCode = start();
}

function start(): number {
  const began = performance.now();
  const up = run(kip, ["up", ...args]);
  if (up !== 0) return up;
  const kubectl = capture(kip, ["status", "--show", "kubectl"]).trim();
  const context = ["--context", "kip-local"];
  capture(kubectl, [...context, "delete", "pod", "hello", "--ignore-not-found"]);
  console.log("\nStarting a pod: kubectl apply -f examples/hello.yaml");
  const created = performance.now();
  const steps = [
    ["apply", "-f", path.join(root, "examples/hello.yaml")],
    ["wait", "--for=condition=Ready", "pod/hello", "--timeout=180s"],
  ];
  for (const step of steps) {
    const status = run(kubectl, [...context, ...step]);
    if (status !== 0) {
      run(kubectl, [...context, "describe", "pod", "hello"]);
      return status;
    }
  }
  const seconds = ((performance.now() - created) / 1000).toFixed(1);
  console.log("\nIts logs: kubectl logs hello");
  run(kubectl, [...context, "logs", "hello"]);
  console.log(`\nCreated to Ready in ${seconds} s, by phase (milliseconds):`);
  console.log(phases(kubectl, context));
  console.log(`\nAll done in ${((performance.now() - began) / 1000).toFixed(0)} s. Try next:
  ${kubectl} ${context.join(" ")} get cells
  ${kubectl} ${context.join(" ")} exec -it hello -- sh
  ${kubectl} ${context.join(" ")} create deployment web --image=kip.local/demo:latest --replicas=2
Remove everything: npm run quickstart -- --down`);
  return 0;
}

function phases(kubectl: string, context: readonly string[]): string {
  const uid = capture(kubectl, [
    ...context,
    "get",
    "pod",
    "hello",
    "-o",
    "jsonpath={.metadata.uid}",
  ]);
  const cell = JSON.parse(
    capture(kubectl, [...context, "get", "cell", `cell-${uid}`, "-o", "json"]),
  ) as {
    status?: { startMs?: Record<string, number> };
  };
  const order = ["api", "cloud", "boot", "dial", "pull", "unpack", "start"];
  return order.map((phase) => `  ${phase} ${cell.status?.startMs?.[phase] ?? "?"}`).join("");
}

function run(command: string, words: readonly string[]): number {
  return spawnSync(command, words, { stdio: "inherit" }).status ?? 1;
}

function capture(command: string, words: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(command, words, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${words.join(" ")}: ${stderr}`);
  return stdout;
}
