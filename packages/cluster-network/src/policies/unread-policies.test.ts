import assert from "node:assert/strict";
import { it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { bucketCount } from "@kip/network-view";
import { eventually, SlowClock } from "@kip/testing";
import { TestCell } from "../testing/test-cell.ts";
import { NetworkViews } from "../views/network-views.ts";

it("a namespace's very many policies are read for its first pod in parts, between which other work passes", async () => {
  const clock = new SlowClock();
  clock.lookMs = 11; // each part takes all of a block
  const stop = new AbortController();
  const views = new NetworkViews({ node: { name: "kip" }, clock, signal: stop.signal });
  const metadata = { namespace: "default", name: "p", uid: "p", resourceVersion: "1" };
  views.setPod(podWith({ metadata, status: { podIP: "10.1.0.1" } }));
  let reads = 0;
  const ports = [{ port: 80 }];
  for (let i = 0; i < 2000; i++) {
    const podSelector = {
      get matchLabels() {
        reads++;
        return {};
      },
    };
    const spec = { podSelector, policyTypes: ["Ingress"], ingress: [{ ports }] };
    views.setPolicy({ metadata: { ...metadata, name: `n${i}`, uid: `n${i}` }, spec });
  }
  reads = 0;
  let most = 0;
  const count = (): void => {
    most = Math.max(most, reads);
    reads = 0;
    if (!stop.signal.aborted) setImmediate(count);
  };
  count();
  const sums = Array<number>(bucketCount).fill(0);
  const cell = new TestCell();
  const subscription = views.subscribe({ podUid: "p", namespace: "default", sums });
  cell.follow(subscription, stop.signal).catch(() => {});
  most = Math.max(most, reads);
  await eventually(() => cell.policy?.ingress?.length === 2000, { what: "the pod's rules" });
  stop.abort();
  assert.ok(most > 0 && most <= 1000, `${most} reads in one part`);
});
