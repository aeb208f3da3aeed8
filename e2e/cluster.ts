import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { eventually as poll } from "@kip/testing";
import { writeSettings } from "./image-registry.ts";
import { cluster as own } from "./cluster-number.ts";

const root = path.join(import.meta.dirname, "..");
const kip = path.join(root, "apps/kip/bin/kip");

/** A program's output, and how it ended. */
export interface Result {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program until it ends. */
export async function run(
  command: string,
  args: readonly string[],
  options: {
    readonly input?: string | Buffer;
    readonly env?: NodeJS.ProcessEnv;
    readonly timeoutMs?: number;
  } = {},
): Promise<Result> {
  const child = spawn(command, args, {
    env: { ...process.env, ...options.env },
    timeout: options.timeoutMs ?? 300_000,
    killSignal: "SIGKILL",
  });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => out.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => err.push(chunk));
  child.stdin.on("error", () => {});
  child.stdin.end(options.input);
  const status = await new Promise<number>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? -1));
  });
  return { status, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() };
}

/** State folder of the end-to-end cluster, which is separate from a cluster that a user has started. */
export const stateDir = process.env["KIP_E2E_DIR"] ?? path.join(tmpdir(), own.name);
export const clusterFlags = [
  `--state-dir=${stateDir}/state`,
  `--kubeconfig=${stateDir}/user.kubeconfig`,
  `--namespace-name=${own.name}`,
];
const gates = [
  "ContainerStopSignals",
  "ContainerRestartRules",
  "HostnameOverride",
  "EnvFiles",
  "ImageVolume",
  "ClusterTrustBundle",
  "ClusterTrustBundleProjection",
  "PodCertificateRequest",
];
/** APIs for the sources of projected volumes that the last of these gates enable. */
const groups = ["v1beta1/clustertrustbundles", "v1alpha1/podcertificaterequests"];
const auditFile = auditLog(own.name);
export const upFlags = [
  ...clusterFlags,
  // With exactly the permissions of the manifests, which are compared with the requests.
  ...(auditFile === undefined ? [] : [`--audit-log=${auditFile}`, "--act-as-node"]),
  `--port=${own.apiPort}`,
  `--registry-port=${own.registryPort}`,
  `--network-range=${own.networkRange}`,
  `--service-range=${own.serviceRange}`,
  `--node-name=${own.name}`,
  `--settings=${stateDir}/settings.yaml`,
  `--host-port=${own.hostPort}`,
  // Fields of pods that are behind gates in Kubernetes 1.34. None of the gates changes other pods.
  `--feature-gates=${gates.map((gate) => `${gate}=true`).join(",")}`,
  `--runtime-config=${groups.map((group) => `certificates.k8s.io/${group}=true`).join(",")}`,
];

/**
 * The audit log, if KIP_AUDIT_LOG names a folder. Kip then has the permissions of the manifests, and its requests to the API
 * server are recorded there for tools/audit-rights.ts.
 */
export function auditLog(name: string): string | undefined {
  const folder = process.env["KIP_AUDIT_LOG"] ?? "";
  return folder === "" ? undefined : path.resolve(folder, `${name}.log`);
}

const providerConfig = path.join(stateDir, "state/provider.yaml");

/** The `provider.yaml` of this test run's cluster. */
export function readProviderConfig(): string {
  return readFileSync(providerConfig, "utf8");
}

/** Replaces the file. Kip then applies it. */
export function writeProviderConfig(text: string): void {
  writeFileSync(`${providerConfig}.new`, text, { mode: 0o600 });
  renameSync(`${providerConfig}.new`, providerConfig);
}

/**
 * Prepares the folder of a test that has its own cluster: removes what an interrupted run has left. The path is always the
 * same, so that the next run finds it.
 *
 * @param work contains the cluster's state folder
 * @param flags flags of `kip down` for that cluster
 */
export async function emptyFolder(work: string, flags: readonly string[]): Promise<void> {
  const down = await kipCommand("down", ...flags);
  assert.equal(down.status, 0, down.stderr);
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work);
}

/** Runs the kip command. */
export async function kipCommand(...args: readonly string[]): Promise<Result> {
  if (args.includes(`--settings=${stateDir}/settings.yaml`)) await writeSettings(stateDir);
  return await run(kip, args, { timeoutMs: 1_200_000 });
}

/** A running local cluster. */
export interface Cluster {
  kubectl(...args: readonly string[]): Promise<Result>;
  /** Like {@link Cluster.kubectl}, but fails the test unless it succeeds, and returns the output. */
  ok(...args: readonly string[]): Promise<string>;
  /** Applies a manifest that the API server may reject. */
  tryApply(object: object): Promise<Result>;
  /** Applies manifests. */
  apply(...objects: readonly object[]): Promise<void>;
  readonly kubectlPath: string;
  readonly kubeconfig: string;
}

/** Starts or joins the cluster of this test run, or another one with these flags of `kip up` and `kip status`. */
export async function cluster(
  namespace: string,
  flags: { readonly up: readonly string[]; readonly status: readonly string[] } = {
    up: upFlags,
    status: clusterFlags,
  },
): Promise<Cluster> {
  const up = await kipCommand("up", ...flags.up);
  assert.equal(up.status, 0, up.stdout + up.stderr);
  const show = async (fact: string): Promise<string> =>
    (await kipCommand("status", ...flags.status, `--show=${fact}`)).stdout.trim();
  const kubectlPath = await show("kubectl");
  const kubeconfig = await show("kubeconfig");
  const base = ["--kubeconfig", kubeconfig, "--namespace", namespace];
  const kubectl = async (...args: readonly string[]): Promise<Result> =>
    await run(kubectlPath, [...base, ...args]);
  const ok = async (...args: readonly string[]): Promise<string> => {
    const result = await kubectl(...args);
    assert.equal(
      result.status,
      0,
      `kubectl ${args.join(" ")}\n${result.stdout}${result.stderr}${await evidence(kubectl)}`,
    );
    return result.stdout;
  };
  await kubectl("create", "namespace", namespace);
  await eventually(
    "the namespace's service account",
    async () => (await kubectl("get", "serviceaccount", "default")).status === 0,
  );
  return {
    kubectl,
    ok,
    kubectlPath,
    kubeconfig,
    tryApply: async (object) =>
      await run(kubectlPath, [...base, "apply", "-f", "-"], { input: JSON.stringify(object) }),
    apply: async (...objects) => {
      const document = { apiVersion: "v1", kind: "List", items: objects };
      const result = await run(kubectlPath, [...base, "apply", "-f", "-"], {
        input: JSON.stringify(document),
      });
      assert.equal(result.status, 0, result.stderr);
    },
  };
}

async function evidence(kubectl: Cluster["kubectl"]): Promise<string> {
  const parts = await Promise.all([
    kubectl("describe", "pods"),
    kubectl("get", "cells", "-o", "wide"),
  ]);
  return parts.map(({ stdout }) => `\n${stdout}`).join("");
}

/** Polls for a condition that no event reports. Each check runs a program. */
export async function eventually(
  what: string,
  check: () => Promise<boolean> | boolean,
  limitMs = 120_000,
): Promise<void> {
  await poll(check, { what, limitMs, intervalMs: 200 });
}

/** A pod with one container that runs a shell command. */
export function shellPod(
  name: string,
  script: string,
  spec: object = {},
  container: object = {},
): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      terminationGracePeriodSeconds: 2,
      containers: [
        {
          name: "main",
          image: "kip.local/demo:latest",
          command: ["sh", "-c", script],
          ...container,
        },
      ],
      ...spec,
    },
  };
}

/** PIDs of the QEMU processes of this cluster. The machine folder in their command line identifies them. */
export function machineProcesses(): readonly number[] {
  return processesWith(
    (line) => line.includes("qemu-system") && line.includes(`${stateDir}/state/cells/`),
  );
}

/** PID of the provider process. A child that has not yet started its own program has the same command line, and is ignored. */
export function providerProcess(folder = stateDir): number {
  const found = processesWith((line) => line.includes(`--provider-config=${folder}/state/`));
  const [pid, ...others] = found.filter((each) => {
    const parent = parentOf(each);
    return parent !== undefined && !found.includes(parent);
  });
  assert.ok(
    pid !== undefined && others.length === 0,
    `one provider process expected, found ${[pid, ...others].join(", ")}`,
  );
  return pid;
}

/** Kills the provider process with SIGKILL. Resolves when there is a new one. */
export async function killProvider(folder = stateDir): Promise<void> {
  const pid = providerProcess(folder);
  process.kill(pid, "SIGKILL");
  await eventually("a new provider", () => {
    try {
      return providerProcess(folder) !== pid;
    } catch {
      return false;
    }
  });
}

/** PID of a process's parent. Undefined if the process has ended. */
function parentOf(pid: number): number | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    return Number(/^PPid:\s*(\d+)$/m.exec(status)?.[1]);
  } catch {
    return undefined;
  }
}

function processesWith(matches: (commandLine: string) => boolean): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        return matches(readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " "));
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** Removes this test run's cluster. */
export function removeCluster(): number {
  return spawnSync(kip, ["down", ...clusterFlags], { stdio: "inherit" }).status ?? 1;
}
