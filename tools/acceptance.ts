// The acceptance list of the Virtual Kubelet library, which consists of the original's own tests by ID, and which of our tests
// covers each entry. A test's name contains the IDs that it covers, as "(L1, P4)" at its end or as "A1: " at its start.
// tools/run-tests.ts writes the table into docs/acceptance.md, and fails if an ID has no test that passed.
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Outcome } from "./outcomes.ts";

const list: readonly (readonly [id: string, what: string])[] = [
  ["L1", "createStartDelete: a terminal phase, then the object disappears"],
  ["L2", "deletion of a pod the provider does not know"],
  ["L3", "deletion that fails: repeated, the object stays"],
  ["L4", "a pod only in the provider is removed at the start"],
  ["L5", "a pod being deleted at the start disappears"],
  ["L6", "a failed pod stays untouched"],
  ["L7", "a succeeded pod stays untouched"],
  ["L8", "a change of a running pod reaches the provider"],
  ["L9", "creation throughput"],
  ["N1", "node without a lease: status is the heartbeat"],
  ["N2", "node with a lease: holder, renewTime rises strictly"],
  ["N3", "handler of status write errors"],
  ["N4", "status as given, also after the object is made again"],
  ["N5", "pings go on beside status updates"],
  ["N6", "annotations of before survive"],
  ["N7", "foreign conditions survive, dropped annotations go"],
  ["N8", "one ping at a time, with a time limit"],
  ["N9", "errors of readiness are distinguished"],
  ["P1", "which pods are equal"],
  ["P2", "which changes reach the provider"],
  ["P3", "a change of status alone does not"],
  ["P4", "one creation"],
  ["P5", "no resolution of the environment where it is not wanted"],
  ["P6", "a changed image is one update"],
  ["P7", "without a change there is no update"],
  ["P8", "the order of variables is not a change"],
  ["P9", "deletion by the provider deletes the object"],
  ["P10", "the API's version is used, not the provider's"],
  ["P11", "a provider's version 0 is never sent"],
  ["P12", "a recreated pod of the same name is left alone"],
  ["P13", "no status stored: no error, no deletion"],
  ["P14", "the polling adapter forgets what was deleted"],
  ["C1", "the controller ends when it is stopped"],
  ["C2", "what is compared"],
  ["C3", "only the node's own pods are seen"],
  ["E1", "real API server: node registered, clean stop"],
  ["E2", "real API server: one owner of the lease"],
  ["E3", "annotations reported with a status appear on the pod"],
  ["F1", "pods of other nodes are filtered"],
  ["A1", "log options"],
  ["A2", "resource metrics: 200, 501, 500"],
  ["A3", "exec: a client that leaves cancels the call"],
  ["A4", "attach: a client that leaves cancels the call"],
  ["S1", "closing cancels once"],
  ["S2", "a normal end does not cancel"],
  ["S3", "no signal, no cancellation"],
  ["S4", "connections that report their end"],
  ["S5", "headers of port-forward streams"],
  ["S6", "pairs of port-forward streams"],
  ["S7", "request IDs of port-forward streams"],
  ["S8", "ports in a WebSocket query"],
  ["Q1", "repetitions (the original gives up after 20; nothing is given up here)"],
  ["Q2", "delays given by the failure"],
  ["Q3", "forgotten keys are not repeated"],
  ["Q4", "an empty queue waits"],
  ["Q5", "a later add wakes, an earlier one advances"],
  ["Q6", "changes during a run give one more run"],
  ["Q7", "twenty at once"],
  ["Q8", "success resets the back-off"],
  ["M1", "the latest value of many"],
  ["R1", "reading ConfigMaps and Secrets, not-found preserved"],
  ["V1", "env of init containers and containers"],
  ["V2", "fieldRef"],
  ["V3", "envFrom with prefixes"],
  ["V4", "envFrom of several sources"],
  ["V5", "invalid names skipped and reported"],
  ["V6", "env overrides envFrom"],
  ["V7", "missing sources, optional and mandatory"],
  ["V8", "missing keys"],
  ["V9", "service variables"],
  ["V10", "composed and empty values"],
  ["V11", "ephemeral containers"],
  ["X1", "$(VAR) expansion"],
  ["D1", "classes of errors, wrapped ones too"],
  ["G1", "fields of text logs"],
  ["T1", "fields, errors and levels on spans"],
  ["T2", "spans: status, attributes, events"],
  ["O1", "exporters by name"],
  ["U1", "the importable suite: set up once, skips honoured"],
  ["K1", "/pods through the API server's node proxy"],
  ["K2", "/stats/summary through the API server's pod proxy"],
  ["K3", "/metrics/resource"],
  ["K4", "graceful deletion"],
  ["K5", "forced deletion"],
  ["K6", "optional Secret that does not exist"],
  ["K7", "mandatory Secret that does not exist"],
  ["K8", "optional ConfigMap that does not exist"],
  ["K9", "mandatory ConfigMap that does not exist"],
  ["K10", "a deleted Node is registered again"],
];

const head = `# Acceptance list of the virtual kubelet library

Written by the tests (\`npm test\`, or \`npm run test:acceptance\`); do not edit.

`;

/** The IDs in a test's name. */
function idsOf(name: string): readonly string[] {
  const groups = name.matchAll(/\(((?:[A-Z]\d+(?:, ?)?)+)\)|(?:^|["'`])((?:[A-Z]\d+(?:, ?)?)+):/gm);
  return [...groups].flatMap(([, behind, before]) => (behind ?? before ?? "").split(/, ?/));
}

/** IDs without a test that passed. */
function openIds(results: readonly Outcome[]): readonly string[] {
  const shown = new Set(
    results.filter(({ result }) => result === "passed").flatMap(({ name }) => idsOf(name)),
  );
  return list.map(([id]) => id).filter((id) => !shown.has(id));
}

/** The table as Markdown. */
function acceptanceTable(results: readonly Outcome[]): string {
  const rows = list.map(([id, what]) => {
    const tests = results.filter(({ name }) => idsOf(name).includes(id));
    const has = (wanted: Outcome["result"]): boolean =>
      tests.some(({ result }) => result === wanted);
    const order = ["failed", "passed", "skipped"] as const;
    const verdict = order.find(has) ?? "no test";
    const names = [...new Set(tests.map(({ name, file }) => `${path.basename(file)}: ${name}`))];
    names.sort((a, b) => a.localeCompare(b, "en")); // tests do not always end in the same order
    const times = tests.length > names.length ? ` (${tests.length} times)` : "";
    return `| ${id} | ${what} | ${names.join("<br>").replaceAll("|", "\\|")}${times} | ${verdict === "passed" ? verdict : `**${verdict}**`} |`;
  });
  return `| id | what | tests | result |\n| --- | --- | --- | --- |\n${rows.join("\n")}\n`;
}

/**
 * Prints how much of the list these tests cover, and writes the table if they cover all of it.
 *
 * @returns whether every ID has a test that passed
 */
export function closeAcceptance(results: readonly Outcome[]): boolean {
  const open = openIds(results);
  console.log(`acceptance list: ${list.length - open.length} of ${list.length} ids are shown`);
  const table = acceptanceTable(results);
  if (open.length > 0) {
    const rows = table.split("\n").filter((row) => open.some((id) => row.startsWith(`| ${id} |`)));
    console.log(`${rows.join("\n")}\nopen: ${open.join(", ")}`);
    return false;
  }
  const page = path.join(import.meta.dirname, "../docs/acceptance.md");
  writeFileSync(page, `${head}${table}`);
  return true;
}

/** Whether a file has tests for the list. */
export function isAcceptanceFile(file: string): boolean {
  return idsOf(readFileSync(file, "utf8")).length > 0;
}
