// The lifecycle of a pod as with a kubelet: starts, restarts, ends and their status, on real machines.
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import type { Pod } from "@kip/k8s-types";
import { cluster, eventually, run, type Cluster } from "./cluster.ts";

const image = "kip.local/demo:latest";

describe("the life of a pod", () => {
  let kube: Cluster;

  before(async () => {
    kube = await cluster("life");
  });

  async function read(name: string): Promise<Pod> {
    return JSON.parse(await kube.ok("get", "pod", name, "-o", "json")) as Pod; // in the API's format
  }

  async function eventsOf(name: string): Promise<readonly string[]> {
    const { items } = JSON.parse(
      await kube.ok("get", "events", `--field-selector=involvedObject.name=${name}`, "-o", "json"),
    ) as { readonly items: readonly Readonly<Record<"type" | "reason" | "message", string>>[] };
    return items.map(({ type, reason, message }) => `${type} ${reason}: ${message}`);
  }

  it("has stop signals, restart rules, host names and variables from files", async () => {
    const mounts = { image, volumeMounts: [{ name: "data", mountPath: "/data" }] };
    const init =
      "printf '%s\\n' '# made' 'COLOUR = deep \\' ' blue' > /data/env; chmod 600 /data/env; chown 1000 /data/env /data";
    const file = { volumeName: "data", path: "env", key: "COLOUR" };
    await kube.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "gated" },
      spec: {
        os: { name: "linux" },
        restartPolicy: "Never",
        hostnameOverride: "other.example",
        terminationGracePeriodSeconds: 60,
        securityContext: { runAsUser: 1000, runAsGroup: 3000, supplementalGroups: [4000] },
        volumes: [{ name: "data", emptyDir: {} }],
        initContainers: [
          {
            ...mounts,
            name: "init",
            command: ["sh", "-c", init],
            securityContext: { runAsUser: 0 },
          },
        ],
        containers: [
          {
            ...mounts,
            name: "main",
            env: [
              { name: "COLOUR", valueFrom: { fileKeyRef: file } },
              { name: "NONE", valueFrom: { fileKeyRef: { ...file, key: "X", optional: true } } },
              { name: "BOTH", value: "a $(COLOUR) sea" },
            ],
            command: [
              "sh",
              "-c",
              'hostname; echo "$1, $BOTH, ${NONE-none}"; trap "echo told; exit 0" USR1; while :; do sleep 0.2; done',
              "sh",
              "$(COLOUR)",
            ],
            lifecycle: { stopSignal: "SIGUSR1" },
          },
          {
            ...mounts,
            name: "again",
            securityContext: { runAsUser: 0 },
            command: ["sh", "-c", "[ -e /data/ran ] && exit 7; touch /data/ran; exit 42"],
            restartPolicy: "Never",
            restartPolicyRules: [
              { action: "Restart", exitCodes: { operator: "In", values: [42] } },
            ],
          },
        ],
      },
    });
    let pod: Pod | undefined;
    await eventually("the end of the container that is restarted by its rule", async () => {
      pod = await read("gated");
      const again = pod.status?.containerStatuses?.find(({ name }) => name === "again");
      return again?.restartCount === 1 && again.state?.terminated?.exitCode === 7;
    });
    const log = await kube.ok("logs", "gated", "-c", "main");
    assert.equal(log, "other.example\ndeep blue, a deep blue sea, none\n");
    const main = pod?.status?.containerStatuses?.find(({ name }) => name === "main");
    assert.deepEqual(main?.user?.linux, { uid: 1000, gid: 3000, supplementalGroups: [3000, 4000] });
    assert.equal(main?.stopSignal, "SIGUSR1");
    assert.equal(pod?.status?.phase, "Running");
    const generation = pod?.metadata.generation;
    assert.equal(pod?.status?.observedGeneration, generation);
    for (const { type, observedGeneration } of pod?.status?.conditions ?? [])
      assert.equal(observedGeneration, generation, type);
    const access = ["--kubeconfig", kube.kubeconfig, "-n", "life"];
    const logs = ["logs", "-f", "gated", "-c", "main", "--tail=0"];
    const follow = run(kube.kubectlPath, [...access, ...logs]);
    await kube.ok("delete", "pod", "gated", "--timeout=50s");
    assert.equal((await follow).stdout, "told\n");
  });

  it("restarts containers whose probes and hooks fail, and says so in the kubelet's words", async () => {
    const mounts = { image, volumeMounts: [{ name: "data", mountPath: "/data" }] };
    const shell = (text: string): readonly string[] => ["sh", "-c", text];
    const containers = [
      {
        ...mounts,
        name: "stuck",
        // Only its first run ignores signals.
        command: shell(
          "trap '' TERM; [ -e /data/killed ] && trap 'exit 0' TERM; while :; do sleep 0.1; done",
        ),
        livenessProbe: {
          exec: {
            command: shell("[ ! -e /data/killed ] && touch /data/killed && exit 1; exit 0"),
          },
          failureThreshold: 1,
          periodSeconds: 2,
          timeoutSeconds: 20,
          terminationGracePeriodSeconds: 1,
        },
      },
      {
        ...mounts,
        name: "hooked",
        command: shell("trap 'exit 0' TERM; while :; do sleep 0.1; done"),
        terminationMessagePolicy: "FallbackToLogsOnError",
        lifecycle: {
          postStart: {
            exec: { command: shell("[ -e /data/hooked ] || { touch /data/hooked; exit 3; }") },
          },
        },
      },
    ];
    await kube.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "fails" },
      spec: {
        terminationGracePeriodSeconds: 60,
        volumes: [{ name: "data", emptyDir: {} }],
        containers,
      },
    });
    let pod: Pod | undefined;
    await eventually("both restarts", async () => {
      pod = await read("fails");
      const counts = (pod.status?.containerStatuses ?? []).map(
        ({ name, restartCount }) => `${name} ${restartCount}`,
      );
      // Sorted by name, like the kubelet does.
      return counts.join() === "hooked 1,stuck 1" && pod.status?.conditions?.every(isTrue) === true;
    });
    const ended = pod?.status?.containerStatuses?.find(({ name }) => name === "stuck")?.lastState;
    // It has one second of grace, not the pod's minute, and only reacts to SIGKILL.
    assert.equal(ended?.terminated?.exitCode, 137);
    const wanted = [
      "Normal Killing: Container stuck failed liveness probe, will be restarted",
      "Warning FailedPostStartHook: PostStartHook failed",
      "Normal Killing: FailedPostStartHook",
      "Normal Created: Created container: stuck",
      "Normal Started: Started container stuck",
    ];
    await eventually("the events", async () => {
      const events = await eventsOf("fails");
      return (
        wanted.every((words) => events.includes(words)) &&
        events.some((text) => text.startsWith("Warning Unhealthy: Liveness probe failed: "))
      );
    });
    await kube.ok("delete", "pod", "fails", "--timeout=100s");
  });

  it("starts and stops sidecars around the others", async () => {
    // Each writes what it sees to one file that outlives it.
    const note = (text: string): string => `echo ${text} >> /data/life`;
    // Ends on SIGTERM, after two seconds.
    const until = (name: string): string =>
      `trap '${note(`${name} term`)}; sleep 2; exit 0' TERM; while :; do sleep 0.1; done`;
    const mounts = { image, volumeMounts: [{ name: "data", mountPath: "/data" }] };
    const shell = (text: string): readonly string[] => ["sh", "-c", text];
    const sidecar = (name: string): object => ({
      ...mounts,
      name,
      restartPolicy: "Always",
      command: shell(`${note(`${name} starts`)}; ${until(name)}`),
      startupProbe: {
        exec: { command: shell(note(`${name} probed`)) },
        periodSeconds: 1,
        timeoutSeconds: 30,
      },
      lifecycle: { preStop: { exec: { command: shell(note(`${name} hook`)) } } },
    });
    // Main ends only after both sidecars' hooks, so the order does not depend on which of them is faster.
    const hooked = `[ -e /data/tail ] && [ "$(grep -c hook /data/life)" -ge 2 ]`;
    const main = `${note("main starts")}; trap 'until ${hooked}; do sleep 0.1; done; ${note("main term")}; exit 0' TERM; while :; do sleep 0.1; done`;
    await kube.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "sides" },
      spec: {
        terminationGracePeriodSeconds: 60,
        volumes: [{ name: "data", emptyDir: {} }],
        initContainers: [sidecar("one"), sidecar("two")],
        containers: [{ ...mounts, name: "main", command: shell(main) }],
      },
    });
    await kube.ok("wait", "--for=condition=Ready", "pod/sides", "--timeout=240s");
    const access = ["--kubeconfig", kube.kubeconfig, "-n", "life"];
    const tail = shell("touch /data/tail; exec tail -n +1 -f /data/life");
    const life = run(kube.kubectlPath, [...access, "exec", "sides", "-c", "one", "--", ...tail]);
    await kube.ok("delete", "pod", "sides", "--timeout=100s");
    const lines = (await life).stdout.trim().split("\n");
    const place = (text: string): number => lines.indexOf(text);
    const first = ["one starts", "one probed", "two starts", "two probed", "main starts"].map(
      place,
    );
    assert.deepEqual(
      first,
      [...first].sort((a, b) => a - b),
      lines.join(),
    );
    // Hooks run at once, while main still runs. When main has ended, the later sidecar gets its signal, and then the other one.
    const last = ["main term", "two term"].map(place);
    assert.ok(Math.max(place("one hook"), place("two hook")) < place("main term"), lines.join());
    assert.ok(last.every((at) => at > 0) && (last[0] ?? 0) < (last[1] ?? 0), lines.join());
    await eventually("the event", async () =>
      (await eventsOf("sides")).includes("Normal Killing: Stopping container two"),
    );
  });
});

function isTrue({ type, status }: { readonly type: string; readonly status: string }): boolean {
  return type !== "Ready" || status === "True";
}
