import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { createSimulatedCloud } from "@kip/cloud/simulated";
import { metricsText } from "@kip/virtual-kubelet/telemetry";
import type { CellPhase } from "../state/cell.ts";
import { KipMetrics, type CountedCell } from "./kip-metrics.ts";
import { measuredDriver } from "./measured-driver.ts";

function cell(
  phase: CellPhase | undefined,
  instanceType: string,
  pricePerHour: number,
): CountedCell {
  const spec = { launchType: "spot", instanceType, pricePerHour } as const;
  const metadata = { uid: `${instanceType} ${pricePerHour}` };
  return { metadata, spec, ...(phase && { status: { phase } }) };
}

function linesOf(metrics: KipMetrics, name: string, cells: readonly CountedCell[] = []): string[] {
  const lines = metricsText(metrics.families(cells)).split("\n");
  return lines.filter((line) => line.startsWith(name));
}

describe("KipMetrics", () => {
  it("counts cells by phase and type, and adds up what they cost", () => {
    const cells = [
      cell("Claimed", "small", 0.5),
      cell("Claimed", "small", 0.5),
      cell(undefined, "large", 2),
    ];
    assert.deepEqual(linesOf(new KipMetrics(), "kip_cells{", cells), [
      'kip_cells{phase="Claimed",launch_type="spot",instance_type="small"} 2',
      'kip_cells{phase="Pending",launch_type="spot",instance_type="large"} 1',
    ]);
    assert.deepEqual(linesOf(new KipMetrics(), "kip_cells_dollars_per_hour", cells), [
      'kip_cells_dollars_per_hour{launch_type="spot",instance_type="small"} 1',
      'kip_cells_dollars_per_hour{launch_type="spot",instance_type="large"} 2',
    ]);
  });

  it("counts events by reason, and takes the time of each phase of a start", () => {
    const metrics = new KipMetrics();
    metrics.event("Normal", "CellLaunched");
    metrics.event("Normal", "CellLaunched");
    metrics.event("Warning", "NoCapacity");
    metrics.started({ startMs: { api: 20, boot: 700 }, startedFrom: "template" });
    metrics.event("Normal", "CellLost");
    assert.deepEqual(linesOf(metrics, "kip_pod_events_total"), [
      // Series for alerts begin at 0, because Prometheus sees no increase if a series begins with 50.
      'kip_pod_events_total{type="Normal",reason="CellLost"} 1',
      'kip_pod_events_total{type="Warning",reason="CellBootFailed"} 0',
      'kip_pod_events_total{type="Warning",reason="CellUnreachable"} 0',
      'kip_pod_events_total{type="Normal",reason="CellLaunched"} 2',
      'kip_pod_events_total{type="Warning",reason="NoCapacity"} 1',
    ]);
    assert.deepEqual(linesOf(metrics, "kip_cell_start_phase_duration_seconds_sum"), [
      'kip_cell_start_phase_duration_seconds_sum{phase="api",started_from="template"} 0.02',
      'kip_cell_start_phase_duration_seconds_sum{phase="boot",started_from="template"} 0.7',
    ]);
  });

  it("takes the time of requests to the cloud by their result, and leaves the driver as it is", async () => {
    const metrics = new KipMetrics();
    const cloud = createSimulatedCloud();
    await using own = cloud.open({ owner: "me" });
    const driver = measuredDriver(own, { clock: systemClock, observe: metrics.cloudRequest });
    assert.deepEqual(await driver.list(), []);
    await cloud.faults.fail({ operation: "list", code: "CLOUD_THROTTLED" });
    await assert.rejects(driver.list(), (error) => CloudError.is(error, "CLOUD_THROTTLED"));
    driver.onTerminated(() => {})();
    assert.equal(driver.name, own.name);
    assert.deepEqual(linesOf(metrics, "kip_cloud_request_duration_seconds_count"), [
      'kip_cloud_request_duration_seconds_count{operation="list",result="ok"} 1',
      'kip_cloud_request_duration_seconds_count{operation="list",result="CLOUD_THROTTLED"} 1',
    ]);
  });
});
