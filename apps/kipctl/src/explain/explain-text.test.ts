import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith, type PodParts } from "@kip/k8s-types/testing";
import { instanceTypeRequest, requestedDiskBytes } from "@kip/kip/selection";
import type { CellSpec, CellStatus } from "@kip/kip/cell";
import { cellWith } from "../testing/cell-with.ts";
import type { StoredEvent } from "../cluster/list-events.ts";
import { explainText } from "./explain-text.ts";

const now = Date.parse("2026-01-01T01:00:00Z");
const since = "2026-01-01T00:00:00Z";
const transition = { message: "", lastTransitionTime: since };

function explained(
  parts: PodParts,
  cell?: { readonly spec?: Partial<CellSpec>; readonly status?: Partial<CellStatus> },
  events: readonly StoredEvent[] = [],
): string {
  const containers = [{ name: "main", resources: { requests: { cpu: "250m", memory: "64Mi" } } }];
  const pod = podWith({
    metadata: { creationTimestamp: since, ...parts.metadata },
    spec: { nodeName: "kip", containers, ...parts.spec },
    status: parts.status,
  });
  const isOnKip = pod.spec.nodeName === "kip";
  const request = { ...instanceTypeRequest(pod, undefined), diskBytes: requestedDiskBytes(pod) };
  const facts = { pod, cell: cell && cellWith(cell), isOnKip, request, events };
  return explainText(facts, now);
}

function running(parts: { readonly ready: boolean; readonly started: boolean }) {
  const state = { running: { startedAt: since } };
  return { name: "main", image: "", imageID: "", restartCount: 0, state, ...parts };
}

describe("explainText()", () => {
  it("says what a running pod has, why, what it costs, and how its start went", () => {
    const status = { phase: "Running", containerStatuses: [] };
    const text = explained(
      { status },
      { status: { startMs: { api: 50, cloud: 1000, start: 200 } } },
    );
    assert.match(text, /^Pod default\/web: Running, made 60m ago\n/);
    assert.match(
      text,
      /\n {2}Machine +cell-u, Claimed: t3\.nano, zone z1, instance i-1, at 10\.0\.0\.7\n/,
    );
    assert.match(text, /\n {2}Why +it asks for 250m CPU, 64Mi of memory\n/);
    assert.match(text, /t3\.nano \(on-demand\) was the cheapest that fits/);
    assert.match(text, /\n {2}Costs +\$0\.0052 an hour, \$3\.80 a month, \$0\.0052 so far\n/);
    assert.match(text, /\n {2}Waits for +nothing\n/);
    assert.match(text, /\n {2}cloud +1\.00 s {2}#{20} /);
    assert.match(text, /\n {2}start +0\.20 s {2}#{4} /);
    assert.match(text, /\n {2}total +1\.25 s\n/);
  });

  it("leaves out what a terminal takes for a command, which a registry may have sent", () => {
    const message = "registry r.example has no image: \u001b]0;title\u0007\u001b[2Jno such\nimage";
    const waiting = { reason: "ErrImagePull\u001b[31m", message };
    const containerStatuses = [
      { name: "main", image: "", imageID: "", ready: false, restartCount: 0, state: { waiting } },
    ];
    // The API server does not check what a writer of Cell statuses puts into them.
    const cell = { status: { startedFrom: "boot\u001b[2J" as "boot", startMs: { api: 50 } } };
    const text = explained({ status: { phase: "Pending", containerStatuses } }, cell);
    // oxlint-disable-next-line no-control-regex -- the text must not contain control characters
    assert.doesNotMatch(text, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    assert.match(text, /^Pod default\/web: ErrImagePull\[31m, made 60m ago\n/);
    assert.match(text, /\n {2}Waits for +container "main": ErrImagePull.*no such image\n/);
  });

  it("names the first condition of the cell that is not true", () => {
    const conditions = [
      { type: "Launched", status: "True", reason: "InstanceStarted", ...transition },
      {
        type: "Running",
        status: "False",
        reason: "CloudQuota",
        ...transition,
        message: "No quota",
      },
      { type: "Ready", status: "False", reason: "AgentNotConnected", ...transition },
    ] as const;
    const text = explained(
      { status: { phase: "Pending" } },
      { status: { phase: "Launching", conditions } },
    );
    assert.match(text, /\n {2}Waits for +No quota \(CloudQuota\)\n/);
    assert.match(text, /\nConditions of the cell:\n {2}TYPE +STATUS +SINCE +REASON +MESSAGE\n/);
  });

  const waits: readonly (readonly [string, PodParts, RegExp])[] = [
    [
      "for kip, before there is a Cell",
      {
        status: {
          phase: "Pending",
          conditions: [
            {
              type: "kip.elotl.co/CellReady",
              status: "False",
              reason: "CloudNoCapacity",
              message: "None",
            },
          ],
        },
      },
      /Machine +none\n[^]*Waits for +None \(CloudNoCapacity\)\n/,
    ],
    [
      "for the scheduler",
      {
        spec: { nodeName: undefined as never },
        status: {
          conditions: [
            { type: "PodScheduled", status: "False", message: "0/1 nodes are available" },
          ],
        },
      },
      /Node +none yet\n[^]*the scheduler: 0\/1 nodes are available\n/,
    ],
    ["for nothing of kip", { spec: { nodeName: "other" } }, /"other" is not one of kip's/],
    [
      "for an image",
      {
        status: {
          phase: "Pending",
          containerStatuses: [
            {
              name: "main",
              ready: false,
              restartCount: 0,
              image: "",
              imageID: "",
              state: { waiting: { reason: "ErrImagePull", message: "not found" } },
            },
          ],
        },
      },
      /container "main": ErrImagePull: not found\n/,
    ],
    [
      "for an ephemeral container",
      {
        status: {
          phase: "Running",
          containerStatuses: [running({ ready: true, started: true })],
          ephemeralContainerStatuses: [
            {
              ...running({ ready: false, started: false }),
              name: "debug",
              state: { waiting: { reason: "ErrImagePull", message: "not found" } },
            },
          ],
        },
      },
      /container "debug": ErrImagePull: not found\n/,
    ],
    [
      "for a startup probe",
      {
        status: {
          phase: "Running",
          containerStatuses: [running({ ready: false, started: false })],
        },
      },
      /container "main": it runs, and its startup probe has not succeeded\n/,
    ],
    [
      "for a readiness probe",
      {
        status: { phase: "Running", containerStatuses: [running({ ready: false, started: true })] },
      },
      /container "main": it runs, and its readiness probe has not succeeded\n/,
    ],
    [
      "for a readiness gate",
      {
        status: {
          phase: "Running",
          containerStatuses: [running({ ready: true, started: true })],
          conditions: [
            {
              type: "Ready",
              status: "False",
              reason: "ReadinessGatesNotReady",
              message:
                'corresponding condition of pod readiness gate "example.com/ok" does not exist.',
            },
          ],
        },
      },
      /Waits for +its readiness gates: .*"example\.com\/ok" does not exist\.\n/,
    ],
    [
      "for its end",
      { metadata: { deletionTimestamp: since } },
      /Waits for +its end: it is deleted\n/,
    ],
    [
      "for an init container that runs beside a sidecar",
      {
        spec: {
          initContainers: [{ name: "side", restartPolicy: "Always" }, { name: "load" }],
        },
        status: {
          phase: "Pending",
          initContainerStatuses: [
            { ...running({ ready: true, started: true }), name: "side" },
            { ...running({ ready: false, started: false }), name: "load" },
          ],
          containerStatuses: [
            {
              ...running({ ready: false, started: false }),
              state: { waiting: { reason: "PodInitializing" } },
            },
          ],
        },
      },
      /init container "load": it runs, and has not completed\n/,
    ],
    [
      "for the next run of a container, and how the last one ended",
      {
        status: {
          phase: "Running",
          containerStatuses: [
            {
              ...running({ ready: false, started: false }),
              state: { waiting: { reason: "CrashLoopBackOff", message: "back-off 20s" } },
              lastState: { terminated: { exitCode: 137, reason: "OOMKilled" } },
            },
          ],
        },
      },
      /container "main": CrashLoopBackOff: back-off 20s; it last ended with exit code 137 \(OOMKilled\)\n/,
    ],
  ];
  for (const [what, parts, expected] of waits)
    it(`says that a pod waits ${what}`, () => assert.match(explained(parts), expected));

  it("says by the newest event what a container without a message waits for, if that is a warning", () => {
    const state = { waiting: { reason: "ContainerCreating" } };
    const containerStatuses = [{ ...running({ ready: false, started: false }), state }];
    const message = 'MountVolume.SetUp failed for volume "v" : configmap "x" not found';
    const event = (type: string): StoredEvent => ({
      metadata: { name: "e", namespace: "default", uid: "e", resourceVersion: "1" },
      involvedObject: {},
      type,
      reason: "FailedMount",
      message,
    });
    const text = (type: string): string =>
      explained({ status: { phase: "Pending", containerStatuses } }, undefined, [event(type)]);
    assert.ok(text("Warning").includes(`"main": ContainerCreating: FailedMount: ${message}\n`));
    assert.match(text("Normal"), /Waits for +container "main": ContainerCreating\n/);
  });

  it("says how the last run of a container that was restarted has ended", () => {
    const lastState = { terminated: { exitCode: 137, reason: "OOMKilled" } };
    const again = { ...running({ ready: true, started: true }), restartCount: 2, lastState };
    const first = { ...running({ ready: true, started: true }), name: "beside" };
    const text = explained({ status: { phase: "Running", containerStatuses: [again, first] } });
    assert.match(
      text,
      /\n {2}Restarted +container "main", 2 times: its last run ended with exit code 137 \(OOMKilled\)\n {2}Waits for +nothing\n/,
    );
  });

  it("says how a pod has ended, instead of what it waits for", () => {
    const end = (name: string, exitCode: number, more = {}) => ({
      ...running({ ready: false, started: false }),
      name,
      state: { terminated: { exitCode, ...more } },
    });
    const ended = (status: PodParts["status"]): string => {
      const text = explained({ status });
      assert.doesNotMatch(text, /Waits for/);
      return /\n {2}Ended +([^]*)$/.exec(text)?.[1]?.trimEnd() ?? "";
    };
    const message = "Pod was active on the node longer than the specified deadline";
    assert.equal(
      ended({ phase: "Failed", reason: "DeadlineExceeded", message, containerStatuses: [] }),
      `DeadlineExceeded: ${message}`,
    );
    assert.equal(
      ended({
        phase: "Failed",
        initContainerStatuses: [end("init", 0, { reason: "Completed" })],
        containerStatuses: [
          end("main", 3, { reason: "Error", message: "no such table\n" }),
          end("beside", 0),
        ],
      }),
      'container "main" ended with exit code 3 (Error): no such table',
    );
    assert.match(
      ended({
        phase: "Failed",
        reason: "Evicted",
        message: "too much",
        containerStatuses: [end("main", 137, { signal: 9 })],
      }),
      /^Evicted: too much\n +container "main" ended with signal 9$/,
    );
    assert.equal(ended({ phase: "Failed" }), "it has failed; its status does not say why");
    assert.equal(ended({ phase: "Succeeded" }), "all its containers have completed");
  });

  it("names annotations, a machine that stood by, and those before", () => {
    const annotations = { "pod.elotl.co/instance-type": "t3.nano", other: "x" };
    const text = explained({ metadata: { annotations } }, { spec: { standby: true, attempt: 2 } });
    assert.match(
      text,
      /Why +it asks for type t3\.nano\n +its annotation pod\.elotl\.co\/instance-type is "t3\.nano"\n/,
    );
    assert.match(text, /the machine stood by/);
    assert.match(text, /machine number 3/);
    assert.doesNotMatch(text, /cheapest|other is/);
  });

  it("claims no choice for a pod that asks for nothing", () => {
    const text = explained({ spec: { containers: [{ name: "main" }] } }, {});
    assert.match(text, /Why +it asks for nothing: it gets the default type/);
    assert.doesNotMatch(text, /was the cheapest/);
  });

  it("names the disk that a pod requests, with which any type fits", () => {
    const containers = (more = {}) => [
      { name: "main", resources: { requests: { "ephemeral-storage": "3Gi", ...more } } },
    ];
    const text = explained({ spec: { containers: containers() } }, {});
    const alone = /Why +it asks for 3Gi of disk, which any type can have: it gets the default type/;
    assert.match(text, alone);
    assert.doesNotMatch(text, /was the cheapest/);
    const both = explained({ spec: { containers: containers({ cpu: "1" }) } }, {});
    assert.match(both, /Why +it asks for 1 CPU, 3Gi of disk\n/);
  });
});
