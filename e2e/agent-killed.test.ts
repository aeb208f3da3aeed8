// Kills a cell's agent repeatedly under load. Containers, logs and probes are not affected.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { ContainerStatus, Pod } from "@kip/k8s-types";
import { isWholeRun } from "@kip/testing";
import { cluster, eventually, type Cluster } from "./cluster.ts";

const skip = !isWholeRun && "takes minutes: npm run test:e2e:all";
const kills = Number(process.env["KIP_E2E_KILLS"] ?? "100");
const image = "kip.local/demo:latest";

/**
 * Kills the agent this many times. Of four agent processes, three are killed at a random moment within 4 s after they begin to
 * listen, and one within 2 s after its start. More than 30 s after the last long-lived one, the next lives long: until kip has
 * been connected for 12 s, because kip relies on connections that lasted 10 s, and a third command has begun, so that one
 * command began and ended with this agent. On a slow machine, that takes as long as it takes. Busybox' random numbers end at
 * 32767. 1915 is the agent's port, 0A a listening socket, 01 a connection.
 */
const killer = `
n=0; last=; long=0; touch /data/commands
while [ $n -lt ${kills} ]; do
  pid=
  for each in /proc/[0-9]*; do
    line=; [ -e $each/cmdline ] && read -r line <$each/cmdline
    case "$line" in /usr/lib/kip/node*itzo.js*) pid=\${each#/proc/};; esac
  done
  if [ -z "$pid" ] || [ "$pid" = "$last" ]; then usleep 100000; continue; fi
  read -r up _ </proc/uptime; up=\${up%.*}; isLong=; [ $((up - long)) -gt 30 ] && isLong=1
  if [ -z "$isLong" ] && [ $((n % 4)) = 2 ]; then usleep $((RANDOM * 61)); else
    state=0A; [ -n "$isLong" ] && state=01
    until grep -q ":1915 .* $state " /proc/$pid/net/tcp /proc/$pid/net/tcp6 || [ ! -e /proc/$pid ]; do usleep 100000; done
    if [ -n "$isLong" ]; then
      begun=$(wc -l </data/commands); sleep 12
      until [ $(wc -l </data/commands) -ge $((begun + 3)) ] || [ ! -e /proc/$pid ]; do usleep 100000; done
    fi
    usleep $((RANDOM * 122))
  fi
  kill -KILL $pid && n=$((n + 1)) && last=$pid && echo killed $n \${isLong:+long}
  [ -n "$isLong" ] && read -r up _ </proc/uptime && long=\${up%.*}
done
echo over; exec sleep 100000`;

/** Writes numbered lines in bursts of 50. */
const writer = `
i=0
while :; do
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    echo line $i; echo line $((i + 1)); echo line $((i + 2)); echo line $((i + 3)); echo line $((i + 4)); i=$((i + 5))
  done
  usleep 500000
done`;

/** Number of runs of the readiness probe. */
const countProbes = ["sh", "-c", "wc -l < /data/probes"];

describe("a cell's agent that is killed again and again", { skip }, () => {
  let kube: Cluster;

  before(async () => {
    kube = await cluster("killed");
  });

  after(async () => {
    await kube.ok("delete", "pod", "busy", "--timeout=120s");
  });

  async function statuses(): Promise<ReadonlyMap<string, ContainerStatus>> {
    const pod = JSON.parse(await kube.ok("get", "pod", "busy", "-o", "json")) as Pod; // in the API's format
    return new Map(pod.status?.containerStatuses?.map((each) => [each.name, each]));
  }

  it(
    "restarts no container, loses and doubles no line, and invents no result of a probe",
    { timeout: 3_600_000 },
    async (context) => {
      await kube.apply(busyPod());
      await eventually(
        "the first ready container",
        async () => {
          const all = await statuses();
          return all.get("probed")?.ready === true && all.get("restarts")?.restartCount !== 0;
        },
        300_000,
      );
      using watch = watched(kube);
      const execs = { done: 0, failed: 0 };
      let isOver = false;
      const asking = ask(kube, execs, () => isOver);
      try {
        await kube.ok("exec", "busy", "-c", "killer", "--", "touch", "/go");
        await eventually(
          "the last kill",
          async () => (await kube.kubectl("logs", "busy", "-c", "killer")).stdout.includes("over"),
          3_000_000,
        );
      } finally {
        isOver = true;
        await asking;
      }
      await eventually("the agent to answer", async () => {
        const { status } = await kube.kubectl("exec", "busy", "-c", "probed", "--", "true");
        return status === 0;
      });
      const probes = Number(await kube.ok("exec", "busy", "-c", "probed", "--", ...countProbes));
      const changes = watch.lines.length;
      // Kip and the probes have had time to notice a problem.
      const killed = await kube.ok("logs", "busy", "-c", "killer");
      const longLives = killed.match(/ long$/gm)?.length ?? 0;
      context.diagnostic(JSON.stringify({ kills, longLives, execs, probes, changes }));
      assert.ok(execs.done >= longLives && probes >= longLives);
      assert.ok(changes > 1 || longLives === 0);

      for (const line of watch.lines) {
        assert.match(line, /probed=true\/0 /, "ready all the time");
        assert.match(line, /unready=false\/0 /, "never ready");
        assert.match(line, /writer=true\/0 /);
      }
      const all = await statuses();
      for (const name of ["killer", "writer", "probed", "unready", "once"])
        assert.equal(all.get(name)?.restartCount, 0, name);
      assert.equal(all.get("once")?.state?.terminated?.exitCode, 5);
      const log = await kube.ok("logs", "busy", "-c", "writer");
      const lines = log.trimEnd().split("\n");
      const wrong = lines.findIndex((line, index) => line !== `line ${index}`);
      assert.equal(
        wrong,
        -1,
        `line ${wrong}: ${lines.slice(Math.max(0, wrong - 2), wrong + 3).join()}`,
      );
      assert.ok(lines.length > kills * 50, `${lines.length} lines`);
      await eventually("as many runs as starts that are counted", async () => {
        const runs = await kube.ok("exec", "busy", "-c", "probed", "--", "cat", "/data/runs");
        const restarts = (await statuses()).get("restarts");
        assert.ok(
          restarts?.lastState?.terminated === undefined ||
            restarts.lastState.terminated.exitCode === 3,
        );
        return runs.trim().split("\n").length === (restarts?.restartCount ?? 0) + 1;
      });
      const events = await kube.ok("events", "--for", "pod/busy");
      assert.doesNotMatch(events, /Killing|Liveness probe/);
      for (const name of ["killer", "writer", "probed", "unready", "once"]) {
        const started = events
          .split("\n")
          .filter((line) => line.endsWith(`Started container ${name}`));
        assert.ok(started.length <= 1 && !started[0]?.includes("(x"), started.join());
      }
    },
  );
});

function busyPod(): object {
  const container = (name: string, script: string, more: object = {}): object => ({
    name,
    image,
    command: ["sh", "-c", script],
    volumeMounts: [{ name: "data", mountPath: "/data" }],
    ...more,
  });
  const exec = (script: string): object => ({ exec: { command: ["sh", "-c", script] } });
  const often = { periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1 };
  return {
    apiVersion: "v1",
    kind: "Pod",
    // Whether kip counts such a cell as lost is not tested here. It depends on the speed of the machine.
    metadata: { name: "busy", annotations: { "pod.elotl.co/healthcheck-healthy-timeout": "900" } },
    spec: {
      hostPID: true,
      terminationGracePeriodSeconds: 1,
      volumes: [{ name: "data", emptyDir: {} }],
      containers: [
        container("killer", `while [ ! -e /go ]; do usleep 200000; done${killer}`, {
          securityContext: { privileged: true },
        }),
        container("writer", writer),
        container("probed", "exec sleep 100000", {
          readinessProbe: { ...exec("sleep 0.3; echo ready >> /data/probes"), ...often },
          livenessProbe: { ...exec("sleep 0.2"), ...often },
        }),
        container("unready", "exec sleep 100000", {
          readinessProbe: { ...exec("exit 1"), ...often },
        }),
        container("once", "sleep 20; exit 5", { restartPolicy: "Never" }),
        container("restarts", "echo run >> /data/runs; sleep 1; exit 3"),
      ],
    },
  };
}

/** The containers' state in each change of the pod: `name=ready/restarts`. */
function watched(kube: Cluster): Disposable & { readonly lines: readonly string[] } {
  // With a range in a JSON path, kubectl ends a watch at its second object.
  const columns = ["name", "ready", "restartCount"].map(
    (field) => `${field}:.status.containerStatuses[*].${field}`,
  );
  const shown = `custom-columns=${columns.join()}`;
  const args = ["--kubeconfig", kube.kubeconfig, "-n", "killed", "get", "pod", "busy", "-w"];
  const child = spawn(kube.kubectlPath, [...args, "--no-headers", "-o", shown]);
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => {
    const [names = [], ready = [], restarts = []] = line.split(/ +/).map((each) => each.split(","));
    lines.push(names.map((name, index) => `${name}=${ready[index]}/${restarts[index]} `).join(""));
  });
  return { lines, [Symbol.dispose]: () => void child.kill() };
}

/** Runs commands in the pod, one after the other. They fail while the agent is away, and never return a wrong result. */
async function ask(
  kube: Cluster,
  counts: { done: number; failed: number },
  isOver: () => boolean,
): Promise<void> {
  while (!isOver()) {
    const mark = `mark-${counts.done + counts.failed}`;
    const exec = [
      "exec",
      "busy",
      "-c",
      "probed",
      "--",
      "sh",
      "-c",
      `echo >>/data/commands; echo ${mark}; exit 7`,
    ];
    const { status, stdout } = await kube.kubectl(...exec);
    if (status === 7) {
      assert.equal(stdout, `${mark}\n`);
      counts.done += 1;
    } else {
      counts.failed += 1;
      await sleep(500); // handling refusals would slow the agent's next start
    }
  }
}
