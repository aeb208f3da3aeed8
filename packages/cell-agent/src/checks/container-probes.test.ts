import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { setImmediate, setTimeout } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import type { DesiredContainer } from "@kip/agent-api";
import { systemClock } from "@kip/base";
import { ManualClock } from "@kip/testing";
import { container } from "../../test/desired-pod.ts";
import { eventList } from "../../test/event-list.ts";
import { ContainerProbes } from "./container-probes.ts";

/** Runs the probes until they have reported `enough` results. Exec probes return these exit codes, or cannot be run. */
async function said(
  overrides: Partial<DesiredContainer>,
  codes: readonly (number | Error)[],
  enough: number,
  /** How long until a command's process starts, and then until it ends. @default no time */
  takesMs?: { readonly begin: number; readonly run: number },
): Promise<{ said: string[]; events: string[]; probed: string[] }> {
  const list: string[] = [];
  const probed: string[] = [];
  const say = (text: string): void => void list.push(text);
  const clock = new ManualClock(0);
  const { events, list: told } = eventList();
  const stop = new AbortController();
  let next = 0;
  const probes = new ContainerProbes({
    container: container("web", overrides),
    target: {
      containerId: "1",
      address: "127.0.0.1",
      runtime: {
        exec: async (_id, { onBegun }, _streams, signal) => {
          if (takesMs) await clock.sleep(takesMs.begin, signal);
          onBegun?.();
          if (takesMs) await clock.sleep(takesMs.run, signal);
          const exitCode = codes[next++] ?? codes.at(-1) ?? 0;
          if (exitCode instanceof Error) throw exitCode;
          return { exitCode };
        },
      },
    },
    startedAtMs: 0,
    isStarted: false,
    events,
    clock,
    signal: stop.signal,
    listener: {
      started: () => say("started"),
      ready: (isReady) => say(isReady ? "ready" : "not ready"),
      probed: (kind, isSuccess) => probed.push(`${kind} ${isSuccess}`),
      failed: (message) => say(message),
    },
  });
  const probing = probes.run();
  for (let second = 0; second < 1000 && list.length < enough; second++) await clock.advance(1000);
  stop.abort();
  await probing;
  return { said: list.slice(0, enough), events: told.map((event) => event.message), probed };
}

const probe = { exec: { command: ["check"] } };

describe("ContainerProbes", () => {
  it("takes a container without probes for started and ready", async () => {
    assert.deepEqual((await said({}, [], 2)).said, ["started", "ready"]);
  });

  it("waits with readiness until the startup probe has succeeded", async () => {
    const probes = { startupProbe: probe, readinessProbe: probe };
    const result = await said(probes, [1, 1, 0, 0], 2);
    assert.deepEqual(result.said, ["started", "ready"]);
    assert.deepEqual(result.events, ["Startup probe failed: ", "Startup probe failed: "]);
  });

  it("has a container killed that does not start", async () => {
    const result = await said({ startupProbe: { ...probe, failureThreshold: 2 } }, [1], 1);
    assert.deepEqual(result.said, ["startup"]);
  });

  it("has a container killed when its liveness probe fails", async () => {
    const result = await said({ livenessProbe: probe }, [0, 0, 1, 1, 0, 1, 1, 1], 3);
    assert.equal(result.said[2], "liveness");
  });

  it("reports readiness when it changes", async () => {
    const result = await said({ readinessProbe: { ...probe, failureThreshold: 1 } }, [0, 1, 0], 4);
    assert.deepEqual(result.said, ["started", "ready", "not ready", "ready"]);
    assert.deepEqual(result.probed.slice(0, 3), [
      "Readiness true",
      "Readiness false",
      "Readiness true",
    ]);
  });

  it("does not count probes that could not be made, and reports them", async () => {
    const no = new Error("fork: Resource temporarily unavailable");
    const once = { ...probe, failureThreshold: 2 };
    const thrice = [no, no, no];
    const result = await said({ livenessProbe: once }, [...thrice, 1, ...thrice, 1], 3);
    assert.deepEqual(result.said, ["started", "ready", "liveness"]);
    assert.deepEqual(result.probed, ["Liveness false", "Liveness false"]);
    const errored = `Liveness probe errored and resulted in unknown state: ${no.message}`;
    assert.equal(result.events.filter((text) => text === errored).length, 2);
    const startup = await said({ startupProbe: once }, [...thrice, 0], 1);
    assert.deepEqual(startup.said, ["started"]);
    const readinessProbe = { ...probe, failureThreshold: 1 };
    const ready = await said({ readinessProbe }, [0, ...thrice, 1], 3);
    assert.deepEqual(ready.said, ["started", "ready", "not ready"]);
    assert.deepEqual(ready.probed, ["Readiness true", "Readiness false"]);
  });

  it("makes a probe up to three times that cannot be made, as the kubelet does", async () => {
    const no = new Error("fork: Resource temporarily unavailable");
    const once = { ...probe, failureThreshold: 1 };
    const result = await said({ livenessProbe: once }, [no, no, 1], 3);
    assert.deepEqual(result.said, ["started", "ready", "liveness"]);
    assert.deepEqual(result.events, ["Liveness probe failed: "]);
  });

  it("limits the time of a command from the begin of its process, as containerd does", async () => {
    const readinessProbe = { ...probe, failureThreshold: 1, timeoutSeconds: 2 };
    const slow = { begin: 100_000, run: 2000 };
    const ready = await said({ readinessProbe }, [0], 2, { ...slow, run: 1000 });
    assert.deepEqual([ready.said, ready.events], [["started", "ready"], []]);
    const late = await said({ readinessProbe }, [0], 2, { ...slow, run: 3000 });
    assert.deepEqual(late.said, ["started", "not ready"]);
    const text = 'command timed out: "check" timed out after 2s';
    assert.equal(late.events[0], `Readiness probe failed: ${text}`);
  });

  it("fails a command whose process does not begin within two minutes and its limit", async () => {
    const readinessProbe = { ...probe, failureThreshold: 1 };
    const never = { begin: Number.POSITIVE_INFINITY, run: 0 };
    const result = await said({ readinessProbe }, [0], 2, never);
    assert.deepEqual(result.said, ["started", "not ready"]);
  });

  it("does not count probes of a port whose name the container lacks, in the kubelet's words", async () => {
    const port = { port: 0, portName: "web" };
    const events = async (overrides: Partial<DesiredContainer>, enough: number) => {
      const seen = await said(overrides, [], enough);
      assert.deepEqual(seen.said, ["started"].slice(0, seen.said.length));
      assert.deepEqual(seen.probed, []);
      return new Set(seen.events);
    };
    const text = (kind: string): Set<string> =>
      new Set([
        `${kind} probe errored and resulted in unknown state: strconv.Atoi: parsing "web": invalid syntax`,
      ]);
    const readinessProbe = { httpGet: { path: "/", ...port } };
    assert.deepEqual(await events({ readinessProbe }, 2), text("Readiness"));
    assert.deepEqual(await events({ startupProbe: { tcpSocket: port } }, 1), text("Startup"));
  });

  it(
    "takes an answer that came in time, although the agent was too busy to read it",
    { timeout: 20_000 },
    async () => {
      // Responds 300 ms after a request, even while this thread is blocked.
      const server = new Worker(
        `const { parentPort } = require("node:worker_threads");
      const answer = (_, response) => setTimeout(() => response.end("ok"), 300);
      const server = require("node:http").createServer(answer);
      server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));`,
        { eval: true },
      );
      const [port] = await once(server, "message");
      const stop = new AbortController();
      const isReady = Promise.withResolvers<boolean>();
      const { events } = eventList();
      const probes = new ContainerProbes({
        container: container("web", {
          readinessProbe: { httpGet: { path: "/", port }, failureThreshold: 1 },
        }),
        target: {
          containerId: "1",
          address: "127.0.0.1",
          runtime: { exec: async () => ({ exitCode: 0 }) },
        },
        startedAtMs: 0,
        isStarted: true,
        events,
        clock: systemClock,
        signal: stop.signal,
        listener: { started: () => {}, ready: isReady.resolve, probed: () => {}, failed: () => {} },
      });
      const probing = probes.run();
      try {
        await setTimeout(100); // the request is sent
        await setImmediate(); // timers run next in a turn of the event loop
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500);
        assert.equal(await isReady.promise, true);
      } finally {
        stop.abort();
        await probing;
        await server.terminate();
      }
    },
  );

  it("makes probes whose time limit is longer than a timer can be", { timeout: 5000 }, async () => {
    const readinessProbe = { ...probe, timeoutSeconds: 2 ** 31 - 1 };
    assert.deepEqual((await said({ readinessProbe }, [0], 2)).said, ["started", "ready"]);
  });
});
