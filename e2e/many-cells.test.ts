import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isWholeRun } from "@kip/testing";
import { proportionalMiB, residentMiB, rounded } from "../bench/measure.ts";
import { cluster, machineProcesses, shellPod, type Cluster } from "./cluster.ts";
import { cluster as own } from "./cluster-number.ts";

const count = Number(process.env["KIP_MANY_CELLS"] ?? 20);
/** How long to observe idle cells, milliseconds: many rounds of probes and of the node's lease. */
const idleMs = Number(process.env["KIP_MANY_IDLE_MS"] ?? 90_000);

interface PodList {
  readonly items: readonly {
    readonly metadata: { readonly name: string };
    readonly status: {
      readonly podIP: string;
      readonly conditions: readonly { readonly type: string; readonly status: string }[];
      readonly containerStatuses: readonly { readonly restartCount: number }[];
    };
  }[];
}

describe(
  `${count} idle cells on one machine`,
  { skip: !isWholeRun && "takes minutes: npm run test:e2e:all" },
  () => {
    let kube: Cluster;
    before(async () => {
      kube = await cluster("many");
    });

    it("stay healthy, and their pods answer", { timeout: 3_600_000 }, async (context) => {
      const names = Array.from({ length: count }, (_, index) => `idle-${index}`);
      const began = performance.now();
      await kube.apply(...names.map(idlePod));
      await kube.ok("wait", "--for=condition=Ready", "pod", "--all", "--timeout=1800s");
      const readyMs = performance.now() - began;
      const waits = await kube.ok(
        "get",
        "events",
        "--field-selector=reason=CellWaits",
        "-o",
        "name",
      );
      assert.equal(machineProcesses().length, count);
      await allAnswer();

      const failed = await probeFailures();
      const renewals = new Set<string>();
      const host = hostBusySeconds();
      const cells = processorSeconds(machineProcesses());
      const since = performance.now();
      while (performance.now() - since < idleMs) {
        const lease = await kube.ok(
          "get",
          "lease",
          own.name,
          "-n",
          "kube-node-lease",
          "-o",
          "jsonpath={.spec.renewTime}",
        );
        assert.ok(Date.now() - Date.parse(lease) < 40_000, `the lease was renewed at ${lease}`);
        renewals.add(lease);
        await sleep(5000); // check rarely: the time in between is measured
      }
      const seconds = (performance.now() - since) / 1000;
      const pids = machineProcesses();
      const cellSeconds = processorSeconds(pids) - cells;
      const figures = {
        figure: "many cells",
        count,
        readyS: rounded(readyMs / 1000),
        waitedInQueue: waits.split("\n").filter(Boolean).length,
        hostCpuPercent: rounded(
          ((hostBusySeconds() - host) / seconds / availableParallelism()) * 100,
        ),
        cellCpuPercentOfCore: rounded((cellSeconds / seconds / count) * 100),
        rssMiB: rounded(sum(pids.map(residentMiB))),
        pssMiB: rounded(sum(pids.map(proportionalMiB))),
      };
      context.diagnostic(JSON.stringify(figures));

      assert.ok(renewals.size >= 2, "the node's lease is renewed");
      await allAnswer();
      for (const { metadata, status } of (await pods()).items) {
        assert.equal(status.containerStatuses[0]?.restartCount, 0, metadata.name);
        const ready = status.conditions.find(({ type }) => type === "Ready");
        assert.equal(ready?.status, "True", metadata.name);
      }
      assert.equal(await probeFailures(), failed, "no probe fails");
      for (const reason of ["NodeNotReady", "CellLost", "BackOff"]) {
        const events = await kube.ok(
          "get",
          "events",
          "-A",
          `--field-selector=reason=${reason}`,
          "-o",
          "name",
        );
        assert.equal(events, "", `events with reason ${reason}`);
      }
      await kube.ok("delete", "pod", "--all", "--timeout=600s");
    });

    async function pods(): Promise<PodList> {
      return JSON.parse(await kube.ok("get", "pods", "-o", "json")) as PodList;
    }

    /** Number of failed probes, including those before a server began to listen. */
    async function probeFailures(): Promise<number> {
      const selector = "--field-selector=reason=Unhealthy";
      const counts = await kube.ok("get", "events", selector, "-o", "jsonpath={.items[*].count}");
      return sum(counts.split(" ").map(Number));
    }

    async function allAnswer(): Promise<void> {
      const answers = await Promise.all(
        (await pods()).items.map(async ({ metadata, status }) => {
          const response = await fetch(`http://${status.podIP}:8080/`);
          return [metadata.name, (await response.text()).trim()];
        }),
      );
      assert.equal(answers.length, count);
      for (const [name, answer] of answers) assert.equal(answer, `hello from ${name}`);
    }
  },
);

/** A pod that serves HTTP and has a probe every ten seconds. Every second pod's probe is a command. */
function idlePod(name: string, index: number): object {
  const script = `mkdir -p /www; echo hello from ${name} > /www/index.html; exec httpd -f -p 8080 -h /www`;
  const handler =
    index % 2 === 0
      ? { httpGet: { port: 8080, path: "/" } }
      : { exec: { command: ["test", "-s", "/www/index.html"] } };
  const readinessProbe = { ...handler, periodSeconds: 10, timeoutSeconds: 5 };
  const resources = { requests: { memory: "128Mi", cpu: "100m" } };
  return shellPod(name, script, {}, { resources, readinessProbe });
}

/** CPU time used by all programs, seconds. */
function hostBusySeconds(): number {
  const [user = 0, nice = 0, system = 0, , , interrupt = 0, soft = 0] = (
    readFileSync("/proc/stat", "utf8").split("\n")[0] ?? ""
  )
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return (user + nice + system + interrupt + soft) / 100;
}

function processorSeconds(pids: readonly number[]): number {
  return sum(
    pids.map((pid) => {
      const text = readFileSync(`/proc/${pid}/stat`, "utf8");
      const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
      return (Number(fields[11]) + Number(fields[12])) / 100; // user and system time in ticks
    }),
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
