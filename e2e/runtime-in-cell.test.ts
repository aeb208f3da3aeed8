// Runs the integration tests that need real containers on the machine for which the code is meant: a cell. Its kernel has
// control groups of version 2, and its crun, conmon and Node are those that pods get. Each of their tests is also one here.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import path from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, it, type TestContext } from "node:test";
import { build } from "esbuild";
import { tar } from "@kip/testing";
import { counted, type Outcome } from "../tools/outcomes.ts";
import { cluster, run, shellPod, type Cluster } from "./cluster.ts";

const root = path.join(import.meta.dirname, "..");
const namespace = "runtime-in-cell";
const folder = "/var/lib/kip-tests";
const files = [
  "packages/oci-runtime/test/runtime.int.test.ts",
  "packages/cell-agent/test/real-pod.int.test.ts",
];
/** Programs that these tests and this one start. */
const programs = ["packages/cell-agent/test/agent-process.ts", "e2e/programs/test-lines.ts"];
/** Runs a command as the cell's root, in all of its namespaces. */
const onCell = ["chroot", "/cell", "/usr/bin/nsenter", "--all", "--target", "1"];

describe("tests with real containers, on a cell", () => {
  let kube: Cluster;

  before(async () => {
    kube = await cluster(namespace);
    const resources = { requests: { cpu: "1", memory: "700Mi" } };
    await kube.apply(
      shellPod(
        "machine",
        "exec sleep 100000",
        {
          hostNetwork: true,
          hostPID: true,
          volumes: [{ name: "cell", hostPath: { path: "/" } }],
        },
        {
          volumeMounts: [{ name: "cell", mountPath: "/cell" }],
          securityContext: { privileged: true },
          resources,
        },
      ),
    );
    const bundles = await bundle([...files, ...programs]);
    await kube.ok("wait", "--for=condition=Ready", "pod/machine", "--timeout=300s");
    const script = `mkdir -p /cell${folder} && tar -x -C /cell${folder}`;
    const { status, stderr } = await run(
      kube.kubectlPath,
      [...exec(kube, "-i"), "sh", "-c", script],
      { input: tar(bundles) },
    );
    assert.equal(status, 0, stderr);
  });

  after(async () => {
    await kube.kubectl("delete", "pod", "machine", "--wait=false");
  });

  for (const file of files)
    it(`${file} passes, and skips nothing`, { timeout: 900_000 }, async (context) => {
      await passesOnCell(kube, context, bundleName(file));
    });
});

/** Runs one bundle. Reports each of its tests as a test of this run, and fails unless all pass. */
async function passesOnCell(kube: Cluster, context: TestContext, file: string): Promise<void> {
  const command = [
    ...onCell,
    "env",
    `KIP_TEST_AGENT=${folder}/${bundleName("agent-process.ts")}`,
    "/usr/lib/kip/node",
    `--test-reporter=${folder}/${bundleName("test-lines.ts")}`,
    `${folder}/${file}`,
  ];
  const child = spawn(kube.kubectlPath, [...exec(kube), ...command], {
    stdio: ["ignore", "pipe", "pipe"],
    signal: context.signal,
  });
  const errors: string[] = [];
  child.stderr.on("data", (chunk: Buffer) => errors.push(chunk.toString()));
  const ended = new Promise<number>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? -1));
  });
  const outcomes: Outcome[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const outcome = /^outcome: (.*)$/.exec(line)?.[1];
    if (outcome === undefined) context.diagnostic(line);
    else outcomes.push(JSON.parse(outcome) as Outcome); // our reporter's format
  }
  const status = await ended;
  const last = errors.join("").split("\n").slice(-30).join("\n");
  for (const { name } of counted(outcomes, "passed")) await context.test(name, () => {});
  for (const { name, result, why } of [
    ...counted(outcomes, "failed"),
    ...counted(outcomes, "skipped"),
  ])
    await context.test(name, () => assert.fail(`${result} on the cell: ${why}\n${last}`));
  assert.equal(status, 0, last);
  assert.ok(counted(outcomes, "passed").length > 0, `no test was run\n${last}`);
}

function exec(kube: Cluster, ...flags: readonly string[]): readonly string[] {
  const base = ["--kubeconfig", kube.kubeconfig, "--namespace", namespace];
  return [...base, "exec", ...flags, "machine", "--"];
}

function bundleName(file: string): string {
  return path.basename(file).replace(/ts$/, "mjs");
}

async function bundle(
  entries: readonly string[],
): Promise<readonly { readonly name: string; readonly content: Buffer }[]> {
  const { outputFiles } = await build({
    entryPoints: entries.map((entry) => path.join(root, entry)),
    bundle: true,
    write: false,
    outdir: root,
    entryNames: "[name]",
    outExtension: { ".js": ".mjs" },
    platform: "node",
    format: "esm",
    target: "node24",
    sourcemap: "inline",
    sourcesContent: false,
    logLevel: "silent",
  });
  return outputFiles.map((file) => ({
    name: path.basename(file.path),
    content: Buffer.from(file.contents),
  }));
}
