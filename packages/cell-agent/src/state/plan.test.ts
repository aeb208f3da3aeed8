import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { StoredImage } from "@kip/oci-image";
import * as fc from "fast-check";
import type { Plan } from "@kip/reconcile";
import { container } from "../../test/desired-pod.ts";
import type { DraftRecord } from "../../test/draft.ts";
import {
  hasBegun,
  isRunning,
  newRecord,
  nextAttempt,
  type ContainerKind,
  type ContainerRecord,
} from "./container-record.ts";
import { isFinished, planPod, type PodView, type Step } from "./plan.ts";

const image = { config: {} } as StoredImage;

function record(name: string, kind: ContainerKind = "main"): DraftRecord {
  return newRecord(container(name), kind);
}

function withImage(one: DraftRecord): DraftRecord {
  one.image = { kind: "ready", image, volumes: new Map(), attempt: nextAttempt(one) };
  return one;
}

function running(one: DraftRecord, attempt = 0): DraftRecord {
  one.saved.run = {
    id: `${one.desired.name}-${attempt}`,
    attempt,
    image: one.desired.image,
    imageId: "",
    stopSignal: "SIGTERM",
    logDirectory: "",
    startedAtMs: 1,
  };
  return one;
}

function ended(one: DraftRecord, exitCode: number): DraftRecord {
  const { run } = running(one).saved;
  if (run) one.saved.run = { ...run, exit: { exitCode, reason: "x", finishedAt: "" } };
  return withImage(one);
}

function view(containers: readonly ContainerRecord[], overrides: Partial<PodView> = {}): PodView {
  return {
    pod: { restartPolicy: "Always" },
    containers,
    preparation: "done",
    isStopping: false,
    nowMs: 1000,
    ...overrides,
  };
}

function words({ steps }: Plan<Step>): string[] {
  return steps.map((step) => ("container" in step ? `${step.kind} ${step.container}` : step.kind));
}

describe("planPod()", () => {
  it("prepares the pod and pulls all images at once", () => {
    const all = [record("init", "init"), record("a"), record("b")];
    const steps = planPod(view(all, { preparation: "none" }));
    assert.deepEqual(words(steps), ["prepare", "pull init", "pull a", "pull b"]);
  });

  it("starts nothing before namespaces and volumes are there", () => {
    const all = [withImage(record("a"))];
    assert.deepEqual(words(planPod(view(all, { preparation: "none" }))), ["prepare"]);
  });

  it("starts init containers in order, then the others together", () => {
    const one = withImage(record("one", "init"));
    const two = withImage(record("two", "init"));
    const all = [one, two, withImage(record("a")), withImage(record("b"))];
    assert.deepEqual(words(planPod(view(all))), ["start one"]);
    running(one);
    assert.deepEqual(words(planPod(view(all))), []);
    ended(one, 0);
    assert.deepEqual(words(planPod(view(all))), ["start two"]);
    ended(two, 0);
    assert.deepEqual(words(planPod(view(all))), ["start a", "start b"]);
  });

  it("lets a sidecar go first and waits until it has started", () => {
    const side = withImage(record("side", "sidecar"));
    const all = [side, withImage(record("init", "init")), withImage(record("a"))];
    assert.deepEqual(words(planPod(view(all))), ["start side"]);
    running(side);
    assert.deepEqual(words(planPod(view(all))), []);
    side.saved.started = true;
    assert.deepEqual(words(planPod(view(all))), ["start init"]);
  });

  it("goes on while a sidecar restarts, once a later init container has run", () => {
    const side = ended(record("side", "sidecar"), 1);
    side.retryAtMs = 9000;
    const init = withImage(record("init", "init"));
    const last = withImage(record("last", "sidecar"));
    const all = [side, init, last, withImage(record("a"))];
    assert.deepEqual(words(planPod(view(all))), []);
    running(init);
    assert.deepEqual(words(planPod(view(all))), []);
    ended(init, 0);
    assert.deepEqual(words(planPod(view(all))), ["start last"]);
    running(last);
    assert.deepEqual(words(planPod(view(all))), []);
    last.saved.started = true;
    assert.deepEqual(words(planPod(view(all))), ["start a"]);
    assert.deepEqual(words(planPod(view(all, { nowMs: 9000 }))), ["start side", "start a"]);
  });

  it("restarts a sidecar, but no init container, once the pod is initialised", () => {
    const side = ended(record("side", "sidecar"), 1);
    const all = [side, ended(record("init", "init"), 0), running(record("a"))];
    assert.deepEqual(words(planPod(view(all))), ["start side"]);
  });

  it("waits for a restarting sidecar as long as no main container could be created", () => {
    const side = ended(record("side", "sidecar"), 1);
    side.retryAtMs = 9000;
    const held = running(withImage(record("a")));
    assert.ok(held.saved.run);
    held.saved.run = { ...held.saved.run, startedAtMs: undefined };
    const all = [side, held, withImage(record("b"))];
    assert.deepEqual(words(planPod(view(all))), []);
    running(held);
    assert.deepEqual(words(planPod(view(all))), ["start b"]);
  });

  it("restarts a failed init container unless the pod must not restart", () => {
    const all = [ended(record("init", "init"), 1), withImage(record("a"))];
    assert.deepEqual(words(planPod(view(all))), ["start init"]);
    const never = view(all, { pod: { restartPolicy: "Never" } });
    assert.deepEqual(words(planPod(never)), ["release"]);
  });

  it("keeps to the restart policy", () => {
    const restarts = (policy: "Always" | "OnFailure" | "Never", exitCode: number): boolean => {
      const all = [ended(record("a"), exitCode), running(record("b"))];
      return words(planPod(view(all, { pod: { restartPolicy: policy } }))).includes("start a");
    };
    assert.deepEqual([restarts("Always", 0), restarts("Always", 1)], [true, true]);
    assert.deepEqual([restarts("OnFailure", 0), restarts("OnFailure", 1)], [false, true]);
    assert.deepEqual([restarts("Never", 0), restarts("Never", 1)], [false, false]);
  });

  it("keeps to a container's own restart policy and rules, in place of the pod's", () => {
    const own = (name: string, restartPolicy: string, code?: number): DraftRecord => {
      const exitCodes = { operator: "In", values: [code ?? 0] };
      const restartPolicyRules = code === undefined ? [] : [{ action: "Restart", exitCodes }];
      return newRecord(container(name, { restartPolicy, restartPolicyRules }), "main");
    };
    const rest = running(record("b"));
    const never = view([ended(own("a", "Never"), 1), rest]);
    assert.deepEqual(words(planPod(never)), []);
    const policy = { pod: { restartPolicy: "Never" } } as const;
    const always = view([ended(own("a", "Always"), 0), rest], policy);
    assert.deepEqual(words(planPod(always)), ["start a"]);
    const rule = view([ended(own("a", "Never", 42), 42)], policy);
    assert.deepEqual([words(planPod(rule)), isFinished(rule)], [["start a"], false]);
    assert.equal(isFinished(view([ended(own("a", "Never", 42), 1)], policy)), true);
    const killed = running(own("a", "OnFailure"));
    killed.kill = { kind: "probe", probe: "liveness" };
    const [step] = planPod(view([killed], policy)).steps;
    assert.equal(step?.kind === "stop" && step.restarts, true);
  });

  it("lets the exit code count of a container whose postStart hook has failed, unlike with a probe", () => {
    const killed = running(record("a"));
    killed.kill = { kind: "postStart", message: "no" };
    const policy = { pod: { restartPolicy: "OnFailure" } } as const;
    const [step] = planPod(view([killed], policy)).steps;
    assert.deepEqual(step?.kind === "stop" && [step.message, step.restarts], [
      "FailedPostStartHook",
      false,
    ]);
  });

  it("restarts a failed init container whose own policy says so, and ends the pod of one that may not", () => {
    const init = (restartPolicy: string): DraftRecord =>
      ended(newRecord(container("init", { restartPolicy }), "init"), 1);
    const policy = { pod: { restartPolicy: "Never" } } as const;
    const again = view([init("OnFailure"), withImage(record("a"))], policy);
    assert.deepEqual(words(planPod(again)), ["start init"]);
    const over = view([init("Never"), withImage(record("a"))]);
    assert.deepEqual(words(planPod(over)), ["release"]);
  });

  it("waits for a back-off", () => {
    const one = ended(record("a"), 1);
    one.retryAtMs = 5000;
    assert.deepEqual(planPod(view([one])), { steps: [], wakeAtMs: 5000 });
  });

  it("ends the pauses before retries when the clock was set back, but keeps the pod's deadline", () => {
    const hourLater = 3_600_000;
    const crashed = ended(record("a"), 1);
    const pulled = record("b");
    const image = { kind: "failed", name: "b", reason: "", message: "", failures: 1 } as const;
    const at = (atMs: number) => {
      crashed.retryAtMs = atMs;
      pulled.image = { ...image, retryAtMs: atMs };
      return planPod(view([crashed, pulled], { deadlineMs: hourLater }));
    };
    assert.deepEqual(at(301_000), { steps: [], wakeAtMs: 301_000 });
    assert.deepEqual(words(at(hourLater)), ["pull b", "start a"]);
    assert.equal(at(hourLater).wakeAtMs, hourLater);
  });

  it("asks the registry before each run with pull policy Always", () => {
    const one = ended(record("a"), 1);
    one.desired = { ...one.desired, imagePullPolicy: "Always" };
    one.image = { kind: "ready", image, volumes: new Map(), attempt: 0 };
    assert.deepEqual(words(planPod(view([one]))), ["pull a"]);
    one.image = { kind: "ready", image, volumes: new Map(), attempt: 1 };
    assert.deepEqual(words(planPod(view([one]))), ["start a"]);
  });

  it("makes a cut-off attempt again", () => {
    const one = running(record("a"), 4);
    const { run } = one.saved;
    assert.ok(run);
    const { startedAtMs: _, ...unbegun } = run;
    one.saved.run = unbegun;
    assert.equal(nextAttempt(one), 4);
    assert.deepEqual(words(planPod(view([withImage(one)]))), ["start a"]);
  });

  it("replaces a container whose image was changed, whatever the policy", () => {
    const one = running(record("a"));
    one.desired = { ...one.desired, image: "other" };
    const never = { pod: { restartPolicy: "Never" as const } };
    const [step] = planPod(view([one], never)).steps;
    assert.deepEqual(step, {
      kind: "stop",
      container: "a",
      message: "Container a definition changed, will be restarted",
      restarts: true,
      hasTurn: true,
    });
  });

  it("stops all containers at once, and sidecars after the others, the last one first", () => {
    const first = running(record("s1", "sidecar"));
    const second = running(record("s2", "sidecar"));
    const main = running(record("a"));
    const all = [first, second, main];
    const turns = (): string[] => {
      const { steps } = planPod(view(all, { isStopping: true }));
      return steps.map((step) =>
        step.kind === "stop" ? `${step.container} ${step.hasTurn}` : step.kind,
      );
    };
    assert.deepEqual(turns(), ["s1 false", "s2 false", "a true"]);
    for (const one of all) one.activity = { kind: "stopping", message: "", restarts: false };
    assert.deepEqual(turns(), ["s1 false", "s2 false", "a true"]); // the same steps continue
    const end = (one: DraftRecord): void => {
      delete one.activity;
      ended(one, 0);
    };
    end(main);
    assert.deepEqual(turns(), ["s1 false", "s2 true"]);
    end(second);
    assert.deepEqual(turns(), ["s1 true"]);
    end(first);
    assert.deepEqual(turns(), ["release"]);
    const released = { isStopping: true, preparation: "released" } as const;
    assert.deepEqual(planPod(view(all, released)).steps, []);
  });

  it("ends sidecars without waiting for debugging and init containers, as a kubelet does", () => {
    const turns = (...all: readonly DraftRecord[]): string[] =>
      planPod(view(all, { isStopping: true })).steps.flatMap((step) =>
        step.kind === "stop" ? [`${step.container} ${step.hasTurn}`] : [],
      );
    const side = running(record("side", "sidecar"));
    const debug = running(record("debug", "ephemeral"));
    assert.deepEqual(turns(side, ended(record("a"), 0), debug), ["side true", "debug true"]);
    const init = running(record("init", "init"));
    assert.deepEqual(turns(side, init, record("a")), ["side true", "init true"]);
  });

  it("says why it stops a container in the kubelet's words", () => {
    const message = (kind: ContainerKind, policy: "Always" | "Never"): string | undefined => {
      const own = kind === "sidecar" ? { restartPolicy: "Always" } : {};
      const one = running(newRecord(container("a", own), kind));
      one.kill = { kind: "probe", probe: "startup" };
      const [step] = planPod(view([one], { pod: { restartPolicy: policy } })).steps;
      return step?.kind === "stop" ? step.message : undefined;
    };
    assert.equal(message("main", "Always"), "Container a failed startup probe, will be restarted");
    assert.equal(message("main", "Never"), "Container a failed startup probe");
    assert.equal(message("sidecar", "Never"), "Init container a failed startup probe");
  });

  it("stops the sidecars of a pod that has completed", () => {
    const side = running(record("side", "sidecar"));
    const all = [side, ended(record("a"), 0)];
    assert.deepEqual(words(planPod(view(all, { pod: { restartPolicy: "Never" } }))), ["stop side"]);
  });

  it("adds a debugging container to a running pod", () => {
    const all = [running(record("a")), withImage(record("debug", "ephemeral"))];
    assert.deepEqual(words(planPod(view(all))), ["start debug"]);
    ended(all[1] ?? record("none"), 1);
    assert.deepEqual(words(planPod(view(all))), []);
  });

  it("wakes for the pod's deadline", () => {
    const plan = planPod(view([running(record("a"))], { deadlineMs: 7000 }));
    assert.deepEqual(plan, { steps: [], wakeAtMs: 7000 });
  });

  it("ends a pod that has run too long, and begins nothing else", () => {
    const all = [running(record("a")), withImage(record("b"))];
    assert.deepEqual(words(planPod(view(all, { deadlineMs: 1000 }))), ["expire"]);
  });

  it("goes on with what is under way, until the pod is to end or the container has ended", () => {
    const pulling = record("pulling");
    pulling.image = { kind: "pulling", failures: 0 };
    const starting = running(record("starting"));
    starting.activity = { kind: "starting" };
    const all = [pulling, starting];
    assert.deepEqual(words(planPod(view(all))), ["pull pulling", "start starting"]);
    assert.deepEqual(words(planPod(view(all, { isStopping: true }))), []);
    starting.exited = { id: "", exitCode: 0, oomKilled: false, finishedAtMs: 0, lost: false };
    assert.deepEqual(words(planPod(view(all))), ["pull pulling", "noteExit starting"]);
  });

  it("probes a container that is watched, also while it is being stopped, until it has ended", () => {
    const one = running(record("a"));
    one.isWatched = true;
    const probe = { kind: "probe", container: "a", runId: "a-0", isStopping: false };
    assert.deepEqual(planPod(view([one])).steps, [probe]);
    one.activity = { kind: "stopping", message: "", restarts: false };
    assert.deepEqual(planPod(view([one])).steps[1], { ...probe, isStopping: true });
    one.exited = { id: "", exitCode: 0, oomKilled: false, finishedAtMs: 0, lost: false };
    assert.deepEqual(words(planPod(view([one]))), ["noteExit a"]);
  });

  it("brings files up to date and removes what is left beside everything else", () => {
    const all = [withImage(record("a"))];
    const stale = { preparation: "stale" as const, leftovers: ["old"] };
    assert.deepEqual(words(planPod(view(all, stale))), ["refresh", "start a", "discard"]);
    const released = { preparation: "released" as const, leftovers: ["old"] };
    assert.deepEqual(words(planPod(view(all, released))), ["discard"]);
  });

  it("always comes to an end when each step does what it says", () => {
    const kinds = fc.array(fc.constantFrom<ContainerKind>("init", "sidecar", "main"), {
      maxLength: 5,
    });
    fc.assert(
      fc.property(kinds, fc.infiniteStream(fc.integer({ min: 0, max: 1 })), (some, codes) => {
        const all = [...some, "main" as const].map((kind, index) => record(`c${index}`, kind));
        // The order in which agent-api lists them: init containers first.
        all.sort((a, b) => Number(a.kind === "main") - Number(b.kind === "main"));
        let isReleased = false;
        let starts = 0;
        for (let round = 0; round < 500 && !isReleased; round++) {
          const { steps } = planPod(view(all, { pod: { restartPolicy: "OnFailure" } }));
          for (const step of steps) {
            const one = all.find((c) => "container" in step && c.desired.name === step.container);
            if (step.kind === "release") isReleased = true;
            if (one && step.kind === "pull") withImage(one);
            if (one && step.kind === "stop") ended(one, 0);
            if (one && step.kind === "start") {
              assert.ok(!isRunning(one));
              assert.ok(one.kind !== "main" || one.saved.run?.exit?.exitCode !== 0);
              running(one, nextAttempt(one));
              one.saved.started = true;
              starts += 1;
            }
          }
          const open = all.find((one) => isRunning(one) && one.kind !== "sidecar");
          if (open) ended(open, starts > 50 ? 0 : (codes.next().value ?? 0));
        }
        assert.ok(isReleased);
        assert.ok(isFinished({ pod: { restartPolicy: "OnFailure" }, containers: all }));
        assert.ok(all.every((one) => !isRunning(one)));
        assert.ok(all.every((one) => one.saved.run === undefined || hasBegun(one.saved.run)));
      }),
    );
  });
});
