// deploy/observability/kip.rules.yaml in Prometheus' own tool. It accepts the rules and the dashboard's queries, and each alert
// fires for the figures that it is meant for.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { parse, stringify } from "yaml";

const root = path.join(import.meta.dirname, "../../..");
const rules = path.join(root, "deploy/observability/kip.rules.yaml");
const dashboard = path.join(root, "deploy/observability/kip.dashboard.json");
const { groups } = parse(readFileSync(rules, "utf8")) as {
  readonly groups: readonly { readonly rules: readonly { readonly alert?: string }[] }[];
};
const alerts = groups.flatMap((group) => group.rules.flatMap(({ alert }) => alert ?? []));

/** Series by name and labels, with their values at each minute in promtool's notation: `0+2x120` means 0, 2, 4 and so on. */
type Figures = Readonly<Record<string, string>>;

const cloud = (operation: string, result: string): string =>
  `kip_cloud_request_duration_seconds_count{operation="${operation}",result="${result}"}`;
const api = (code: string): string =>
  `virtual_kubelet_api_request_duration_seconds_count{method="GET",code="${code}"}`;
const event = (reason: string): string => `kip_pod_events_total{type="Warning",reason="${reason}"}`;
const longest = (phase: string): string => `kip_cells_longest_in_phase_seconds{phase="${phase}"}`;
const price = (launchType: string): string =>
  `kip_cells_dollars_per_hour{launch_type="${launchType}",instance_type="m5.large"}`;
const claims = (result: string): string => `kip_standby_claims_total{result="${result}"}`;
const standby = (state: string): string =>
  `kip_standby_cells{instance_type="m5.large",launch_type="spot",state="${state}"}`;
const failing = 'virtual_kubelet_pods{state="failing"}';
const kubelet = 'kubelet_http_requests_duration_seconds_count{long_running="false"}';
const kubeletWithin10s =
  'kubelet_http_requests_duration_seconds_bucket{long_running="false",le="10"}';
const orphans = 'kip_orphan_terminations_total{result="ok"}';

/** A healthy kip with occasional failures, for which no alert fires. */
const ordinary: Figures = {
  [claims("hit")]: "0+1x120",
  [claims("miss")]: "0x120",
  [standby("ready")]: "2x120",
  [price("spot")]: "12x120",
  [price("on-demand")]: "8x120",
  [longest("Booting")]: "600x120",
  [longest("Draining")]: "0+60x120",
  [longest("Terminating")]: "900x120",
  [event("CellUnreachable")]: "0x85 1x35",
  [event("CellLost")]: "0x85 1x35",
  [event("FailedMount")]: "0+5x120",
  [cloud("launch", "ok")]: "0+2x120",
  [cloud("launch", "CLOUD_NO_CAPACITY")]: "0+1x120",
  [cloud("terminate", "ok")]: "0+2x120",
  [cloud("list", "ok")]: "0+20x120",
  [cloud("list", "CLOUD_UNAVAILABLE")]: "0+1x120",
  [cloud("list", "CLOUD_THROTTLED")]: "0x85 1x35",
  [orphans]: "0x120",
  [failing]: "1x80 0x2 1x40",
  [api("200")]: "0+60x120",
  [api("409")]: "0+60x120",
  [api("500")]: "0+1x120",
  [kubelet]: "0+100x120",
  [kubeletWithin10s]: "0+99x120",
};

/** The figures that differ, for each alert. */
const cases: Readonly<Record<string, readonly Figures[]>> = {
  KipNoLeader: [
    // The replica that ran the node is gone, with all of its series.
    Object.fromEntries(Object.keys(ordinary).map((series) => [series, "0x60"])),
  ],
  KipPodsFailing: [{ [failing]: "1x120" }],
  KipApiErrors: [
    { [api("403")]: "0+10x120" },
    { [api("error")]: "0+10x120" },
    { [api("429")]: "0+4x120", [api("503")]: "0+4x120" },
  ],
  KipKubeletApiSlow: [{ [kubeletWithin10s]: "0+90x120" }],
  KipCellsStuckStarting: [
    { [longest("Pending")]: "0+60x120" },
    { [longest("Booting")]: "0x70 0+60x50" },
  ],
  KipCellsStuckEnding: [{ [longest("Terminating")]: "0x70 0+60x50" }],
  KipCellsUnreachable: [{ [event("CellUnreachable")]: "0x85 5x35" }],
  KipCellsLost: [{ [event("CellLost")]: "0x85 5x35" }, { [event("CellBootFailed")]: "0+1x120" }],
  KipOrphansEnded: [{ [orphans]: "0x50 1x70" }],
  KipStandbyPoolEmpty: [
    { [standby("ready")]: "2x60", [standby("starting")]: "2x120" },
    { [standby("ready")]: "2x10", [claims("miss")]: "0+1x120" },
  ],
  KipLaunchesFail: [{ [cloud("launch", "CLOUD_INVALID_REQUEST")]: "0+1x120" }],
  KipNoCapacity: [{ [cloud("launch", "ok")]: "0+2x55 110x65" }],
  KipCloudQuota: [{ [cloud("launch", "CLOUD_QUOTA")]: "0x60 0+1x60" }],
  KipCloudThrottled: [{ [cloud("launch", "CLOUD_THROTTLED")]: "0+1x120" }],
  KipCloudAuth: [{ [cloud("describe", "CLOUD_AUTH")]: "0x80 1x40" }],
  KipCloudErrors: [{ [cloud("list", "CLOUD_UNAVAILABLE")]: "0+5x120" }],
  KipInstancesNotEnded: [{ [cloud("terminate", "CLOUD_UNAVAILABLE")]: "0x60 0+1x60" }],
  KipPricePerHour: [{ [price("spot")]: "12x40 12.5x80" }],
};

/** A promtool test: exactly these alerts fire after 90 minutes. */
function testOf(name: string, figures: Figures, firing: readonly string[]): object {
  return {
    name,
    interval: "1m",
    input_series: Object.entries(figures).map(([series, values]) => ({
      series: series.replace("{", '{namespace="kip-system",job="kip",instance="one",'),
      values,
    })),
    promql_expr_test: [
      {
        expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
        eval_time: "90m",
        exp_samples: firing.map((alert) => ({ labels: `{alertname="${alert}"}`, value: 1 })),
      },
    ],
  };
}

const canRun = spawnSync("promtool", ["--version"]).status === 0;

describe("deploy/observability", { skip: canRun ? false : "needs promtool" }, () => {
  const folder = temporaryFolder();
  after(() => folder.remove());

  it("has rules that Prometheus takes", async () => {
    const { stdout } = await runCommand("promtool", ["check", "rules", "--lint-fatal", rules]);
    assert.match(stdout, /SUCCESS: \d+ rules found/);
  });

  it("has a dashboard whose queries Prometheus takes", async () => {
    const { panels } = JSON.parse(readFileSync(dashboard, "utf8")) as {
      readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[];
    };
    const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    assert.ok(queries.length > 20);
    const file = path.join(folder.path, "queries.yaml");
    const records = queries.map((expr, index) => ({
      record: `query_${index}`,
      expr: expr.replaceAll("$__rate_interval", "5m").replaceAll("$job", "kip"),
    }));
    writeFileSync(file, stringify({ groups: [{ name: "queries", rules: records }] }));
    await runCommand("promtool", ["check", "rules", file]);
  });

  it("has a configuration in docs/operations.md that Prometheus takes", async () => {
    const page = readFileSync(path.join(root, "docs/operations.md"), "utf8");
    const [, example] = /```yaml\n(.*?)```/s.exec(page) ?? [];
    assert.ok(example);
    // Debian's Prometheus is built without Kubernetes service discovery.
    const config = example.replace(/kubernetes_sd_configs: .*/, "static_configs: []");
    assert.notEqual(config, example);
    const file = path.join(folder.path, "prometheus.yaml");
    writeFileSync(file, config);
    await runCommand("promtool", ["check", "config", "--syntax-only", file]);
  });

  it("has alerts of which each fires by its own figures, and none without", async () => {
    assert.deepEqual(Object.keys(cases).toSorted(), alerts.toSorted(), "each alert has its case");
    const tests = [
      testOf("a kip in order", ordinary, []),
      testOf("no kip at all", {}, ["KipNoLeader"]),
      ...Object.entries(cases).flatMap(([alert, variants]) =>
        variants.map((otherwise, index) =>
          testOf(`${alert} ${index}`, { ...ordinary, ...otherwise }, [alert]),
        ),
      ),
    ];
    const file = path.join(folder.path, "test.yaml");
    const content = { rule_files: [rules], evaluation_interval: "1m", tests };
    writeFileSync(file, stringify(content, { aliasDuplicateObjects: false }));
    await runCommand("promtool", ["test", "rules", file]);
  });
});
