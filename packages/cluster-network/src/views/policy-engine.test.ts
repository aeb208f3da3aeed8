import assert from "node:assert/strict";
import { it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { bucketCount, ChangeReader } from "@kip/network-view";
import { ManualClock } from "@kip/testing";
import { PolicyEngine, type PolicyCell } from "./policy-engine.ts";
import { PolicyReports } from "./policy-reports.ts";
import { ServiceLines } from "./service-lines.ts";

const meta = (name: string) => ({ namespace: "a", name, uid: name, resourceVersion: "1" });

function start(lines: { version: number; readonly services: ServiceLines }): PolicyEngine {
  const clock = new ManualClock();
  const reports = new PolicyReports({ clock });
  const nothing = (): void => {};
  const engine = new PolicyEngine({ clock, reports, lines, schedule: nothing, compute: nothing });
  const spec = {
    podSelector: {},
    policyTypes: ["Ingress"],
    ingress: [{ from: [{ podSelector: {} }] }],
  };
  engine.objects.setPolicy({ metadata: meta("policy"), spec }, false);
  setPod(engine, "10.0.0.1");
  return engine;
}

function setPod(engine: PolicyEngine, ip: string): void {
  const pod = podWith({ status: { podIP: ip, podIPs: [{ ip }] } });
  engine.objects.setPod({ ...pod, metadata: { ...pod.metadata, ...meta("pod") } }, false);
}

it("PolicyEngine gives a cell of another one nothing until its policy is found, and then the policy with whole groups", () => {
  const lines = { version: 0, services: new ServiceLines() };
  const [first, second] = [start(lines), start(lines)];
  const cell: PolicyCell = {
    podUid: "pod",
    namespace: "a",
    knowsTiers: true,
    hasShortLists: false,
    sums: Array<number>(bucketCount).fill(0),
    view: undefined,
    rules: undefined,
    draft: undefined,
    isMoved: false,
    wake: () => {},
  };
  const reader = new ChangeReader();
  const next = () => (cell.view?.next() ?? []).flatMap((piece) => [...reader.push(piece)]);
  first.add(cell);
  while (!first.computeBlock(10));
  assert.equal(first.isHeld(cell), false);
  while (next().length > 0);
  first.release(cell);
  setPod(second, "10.0.0.2");
  assert.equal(second.isHeld(cell), true);
  second.add(cell);
  assert.equal(second.isHeld(cell), true);
  while (!second.computeBlock(10));
  assert.equal(second.isHeld(cell), false);
  const [change] = next();
  assert.deepEqual(
    change?.groups.map((line) => [line.change, "add" in line && line.add]),
    [["reset", ["10.0.0.2"]]],
  );
  assert.ok(change?.policy);
});
