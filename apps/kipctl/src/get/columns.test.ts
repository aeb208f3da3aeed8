import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import type { StoredEvent } from "../cluster/list-events.ts";
import { tableText } from "../output/table.ts";
import { cellWith } from "../testing/cell-with.ts";
import { cellColumns, nodeColumns, waitOf } from "./cell-columns.ts";
import { eventColumns } from "./event-columns.ts";
import { podColumns, podStatusText } from "./pod-columns.ts";

const now = Date.parse("2026-01-01T00:05:30Z");
const since = "2026-01-01T00:00:00Z";

describe("podColumns()", () => {
  const running = {
    name: "a",
    ready: true,
    restartCount: 2,
    image: "",
    imageID: "",
    state: { running: {} },
  };
  const waiting = {
    name: "b",
    ready: false,
    restartCount: 1,
    image: "",
    imageID: "",
    state: { waiting: { reason: "ImagePullBackOff" } },
  };
  const pod = podWith({
    metadata: { namespace: "shop", creationTimestamp: since },
    spec: { nodeName: "kip", containers: [{ name: "a" }, { name: "b" }] },
    status: { phase: "Pending", podIP: "10.0.0.8", containerStatuses: [running, waiting] },
  });

  it("are the original's, with the cell as the node", () => {
    const [names, row] = tableText(podColumns(now, false), [{ pod, cell: cellWith() }]).split("\n");
    assert.deepEqual(names?.split(/ +/), [
      "NAME",
      "UNITS",
      "RUNNING",
      "STATUS",
      "RESTARTS",
      "NODE",
      "IP",
      "AGE",
    ]);
    assert.deepEqual(row?.split(/ +/), [
      "web",
      "2",
      "1",
      "ImagePullBackOff",
      "3",
      "cell-u",
      "10.0.0.8",
      "5m30s",
    ]);
  });

  it("have the namespace of pods of all namespaces, and <none> without a cell", () => {
    const text = tableText(podColumns(now, true), [{ pod, cell: undefined }]);
    assert.match(text, /^NAMESPACE +NAME .*\nshop +web .* <none> /);
  });

  it("say that a pod is deleted, and why it ended", () => {
    const status = { phase: "Failed", reason: "Evicted" };
    assert.equal(podStatusText(podWith({ status })), "Evicted");
    const state = { waiting: { reason: "PodInitializing" } };
    const main = { name: "main", image: "", imageID: "", ready: false, restartCount: 0, state };
    const failed = { phase: "Failed", containerStatuses: [main] };
    assert.equal(podStatusText(podWith({ status: failed })), "Failed");
    const metadata = { deletionTimestamp: since };
    assert.equal(podStatusText(podWith({ metadata, status })), "Terminating");
    assert.equal(podStatusText(podWith()), "Unknown");
  });
});

describe("cellColumns()", () => {
  it("are those of kubectl get cells, and what the cell waits for when wide", () => {
    const conditions = [
      {
        type: "Launched",
        status: "True",
        reason: "InstanceStarted",
        message: "",
        lastTransitionTime: since,
      },
      {
        type: "Running",
        status: "False",
        reason: "CloudQuota",
        message: "m",
        lastTransitionTime: since,
      },
    ] as const;
    const cell = cellWith({ status: { phase: "Launching", conditions } });
    assert.equal(waitOf(cell)?.reason, "CloudQuota");
    const [names, row] = tableText(cellColumns(now), [cell], { isWide: true }).split("\n");
    assert.match(
      names ?? "",
      /^NAME +POD NAME +POD NAMESPACE +NODE +LAUNCH TYPE +INSTANCE TYPE +INSTANCE ID +IP +PHASE +PRICE +AGE +ZONE +STANDBY +STARTED FROM +WAITS FOR$/,
    );
    assert.match(
      row ?? "",
      /^cell-u +web +shop +kip +on-demand +t3.nano +i-1 +10.0.0.7 +Launching +\$0.0052 +5m30s +z1 +false +<none> +CloudQuota$/,
    );
  });

  it("show a cell without status and pod", () => {
    const { podRef: _, ...spec } = cellWith().spec;
    const { status: _status, ...cell } = cellWith();
    const standby = { ...cell, spec: { ...spec, standby: true as const } };
    assert.match(
      tableText(cellColumns(now), [standby]),
      /\ncell-u +<none> +<none> +kip .* <none> +<none> +Pending /,
    );
  });
});

describe("nodeColumns()", () => {
  it("are the original's of its nodes, spot marked", () => {
    const spot = cellWith({ spec: { launchType: "spot" } });
    assert.equal(
      tableText(nodeColumns(now), [spot]),
      "NAME     STATUS    INSTANCE-TYPE    INSTANCE   IP         AGE\n" +
        "cell-u   Claimed   t3.nano (spot)   i-1        10.0.0.7   5m30s\n",
    );
  });
});

describe("eventColumns()", () => {
  it("are the original's, the reason as the status", () => {
    const event: StoredEvent = {
      metadata: {
        name: "e",
        namespace: "shop",
        uid: "e",
        resourceVersion: "1",
        creationTimestamp: since,
      },
      involvedObject: { kind: "Pod", namespace: "shop", name: "web" },
      reason: "CellCreated",
      message: "Cell made",
      source: { component: "kubelet", host: "kip" },
      lastTimestamp: "2026-01-01T00:00:01Z",
    };
    assert.equal(
      tableText(eventColumns(false), [event]),
      "TIMESTAMP              NAME   KIND   STATUS        SOURCE         MESSAGE\n" +
        "2026-01-01T00:00:01Z   web    Pod    CellCreated   kubelet, kip   Cell made\n",
    );
  });
});
