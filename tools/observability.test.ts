import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { metricsText } from "@kip/virtual-kubelet/telemetry";
import { parse } from "yaml";
import { KipMetrics } from "../packages/kip/src/metrics/kip-metrics.ts";
import { exportedMetrics, targetLabels, type Labels } from "./exported-metrics.ts";

const root = path.join(import.meta.dirname, "..");
const read = (file: string): string => readFileSync(path.join(root, file), "utf8");

interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
  readonly gridPos: Readonly<Record<"x" | "y" | "w" | "h", number>>;
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly definition?: string }[];
  };
}

const { groups } = parse(read("deploy/observability/kip.rules.yaml")) as {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
};
const rules = groups.flatMap((group) => group.rules);
const alerts = rules.filter(({ alert }) => alert !== undefined);
const dashboard = JSON.parse(read("deploy/observability/kip.dashboard.json")) as Dashboard;

const keywords = new Set(["and", "or", "unless", "offset", "bool", "by", "on", "group_left"]);
const grouping = /\b(?:by|on|group_left)\s*\(([^)]*)\)/g;

/** The metrics in an expression, which are names that are neither functions nor labels, with their matchers. */
function selectorsOf(
  expr: string,
): readonly { readonly name: string; readonly matchers: string }[] {
  const bare = expr.replaceAll(grouping, " ").replaceAll(/\[[^\]]*\]/g, " ");
  return [...bare.matchAll(/([a-zA-Z_][\w:]*)\s*(?:\{([^}]*)\})?(?!\w*\s*\()/g)]
    .map(([, name = "", matchers = ""]) => ({ name, matchers }))
    .filter(({ name }) => !keywords.has(name));
}

/** Names in an expression that kip does not export. */
function problemsOf(expr: string, metrics: ReadonlyMap<string, Labels>): readonly string[] {
  const problems: string[] = [];
  const labels = new Set(targetLabels.keys());
  for (const { name, matchers } of selectorsOf(expr)) {
    const known = metrics.get(name);
    if (!known) problems.push(name);
    for (const label of known?.keys() ?? []) labels.add(label);
    for (const [, label = "", operator = "", text = ""] of matchers.matchAll(
      /(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"/g,
    )) {
      if (targetLabels.has(label)) continue;
      const values = known?.get(label);
      if (!values) problems.push(`${name}{${label}}`);
      // HTTP status codes can be anything. The other labels have fixed sets of values.
      else if (label !== "code")
        for (const value of operator.includes("~") ? text.split("|") : [text])
          if (!values.has(value)) problems.push(`${name}{${label}="${value}"}`);
    }
  }
  for (const [, list = ""] of expr.matchAll(grouping))
    for (const label of list.split(",").map((each) => each.trim()))
      if (label !== "" && !labels.has(label)) problems.push(`by (${label})`);
  return problems;
}

/** Labels of an expression's result: those of its first grouping. */
function labelsOf(expr: string, metrics: ReadonlyMap<string, Labels>): Labels {
  const of = selectorsOf(expr).flatMap(({ name }) => [...(metrics.get(name) ?? [])]);
  const all = new Map([...targetLabels, ...of]);
  const [, list = ""] = /\bby\s*\(([^)]*)\)/.exec(expr) ?? [];
  const names = list === "" ? [...all.keys()] : list.split(",").map((each) => each.trim());
  return new Map(names.map((name) => [name, all.get(name) ?? new Set<string>()]));
}

/** Kip's metrics, and those that recording rules derive from them. */
function metricsWithRecorded(): ReadonlyMap<string, Labels> {
  const metrics = exportedMetrics();
  for (const { record, expr } of rules)
    if (record !== undefined) metrics.set(record, labelsOf(expr, metrics));
  return metrics;
}

describe("deploy/observability", () => {
  const metrics = metricsWithRecorded();

  it("is compared with metrics by a reader that finds what is not there", () => {
    assert.deepEqual(problemsOf("sum by (phase) (kip_cells) or vector(0)", metrics), []);
    assert.deepEqual(problemsOf('rate(kip_cell{phase="Ready"}[5m])', metrics), [
      "kip_cell",
      "kip_cell{phase}",
    ]);
    const wrong = 'sum by (phases) (kip_cells{phase=~"Ready|Raedy", type="x"})';
    assert.deepEqual(problemsOf(wrong, metrics), [
      'kip_cells{phase="Raedy"}',
      "kip_cells{type}",
      "by (phases)",
    ]);
  });

  it("names no metric, label or value of a label in its rules that kip does not export", () => {
    for (const { record, alert, expr } of rules)
      assert.deepEqual(problemsOf(expr, metrics), [], record ?? alert);
  });

  it("names no event in its rules that kip does not count from 0", () => {
    const figures = metricsText(new KipMetrics().families([]));
    const reasons = rules.flatMap(({ expr }) =>
      [...expr.matchAll(/\breason=~?"([^"]*)"/g)].flatMap(([, text = ""]) => text.split("|")),
    );
    assert.ok(reasons.length > 0);
    for (const reason of reasons)
      assert.match(figures, new RegExp(`^kip_pod_events_total{.*reason="${reason}"} 0$`, "m"));
  });

  it("names no label in texts of alerts that the alert does not have", () => {
    for (const { alert, expr, annotations = {} } of alerts)
      for (const [, label = ""] of Object.values(annotations)
        .join(" ")
        .matchAll(/\$labels\.(\w+)/g))
        assert.ok(labelsOf(expr, metrics).has(label), `${alert}: ${label}`);
  });

  it("has a severity, texts and a section of docs/operations.md for each alert, and no other sections", () => {
    const page = read("docs/operations.md");
    const sections = [...page.matchAll(/^#+ (Kip\w+)$/gm)].map(([, name]) => name);
    assert.deepEqual(
      sections,
      alerts.map(({ alert }) => alert),
    );
    for (const { alert = "", labels, annotations } of alerts) {
      assert.match(labels?.["severity"] ?? "", /^(?:critical|warning)$/, alert);
      assert.ok(annotations?.["summary"] && annotations["description"], alert);
      assert.equal(annotations["runbook_url"], `docs/operations.md#${alert.toLowerCase()}`);
    }
  });

  it("has a dashboard whose queries and legends name what kip exports", () => {
    const queries = dashboard.panels.flatMap(({ title, targets = [] }) =>
      targets.map((target) => ({ title, ...target })),
    );
    assert.ok(queries.length > 0);
    for (const { title, expr, legendFormat } of queries) {
      assert.deepEqual(problemsOf(expr, metrics), [], title);
      for (const [, label = ""] of legendFormat.matchAll(/\{\{(\w+)\}\}/g))
        assert.ok(labelsOf(expr, metrics).has(label), `${title}: ${label}`);
    }
    for (const { definition } of dashboard.templating.list)
      if (definition !== undefined)
        assert.ok(metrics.has(/^label_values\((\w+), job\)$/.exec(definition)?.[1] ?? ""));
  });

  it("has a dashboard whose panels have numbers of their own and do not overlap", () => {
    const ids = dashboard.panels.map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length);
    const taken = new Set<string>();
    for (const { title, type, targets, gridPos } of dashboard.panels) {
      assert.equal(type === "row", targets === undefined, title);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++)
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          assert.ok(x < 24 && !taken.has(`${x} ${y}`), `${title} at ${x}, ${y}`);
          taken.add(`${x} ${y}`);
        }
    }
  });
});
