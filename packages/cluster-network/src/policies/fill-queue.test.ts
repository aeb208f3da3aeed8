import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FillQueue, podsPerStep } from "./fill-queue.ts";
import { Owners } from "./owners.ts";

/** A queue, and the groups of the steps that it has made. */
function start() {
  const queue = new FillQueue();
  const log: string[] = [];
  const begin = (group: string, pods: number, ...namespaces: readonly string[]): void => {
    const work = function* (): Generator<undefined, number> {
      let left = pods;
      for (log.push(group); left > podsPerStep; left -= podsPerStep) {
        yield;
        log.push(group);
      }
      return left;
    };
    queue.add(group, work());
    for (const namespace of namespaces) queue.addWaiter(group, namespace);
  };
  const add = (group: string, steps: number, ...namespaces: readonly string[]): void =>
    begin(group, steps * podsPerStep, ...namespaces);
  const run = (steps: number): readonly string[] => {
    for (let step = 0; step < steps && queue.size > 0; step++) queue.step();
    return log.splice(0);
  };
  return { queue, begin, add, run };
}

describe("FillQueue", () => {
  it("does one step for each namespace in turn, and fills the groups of a namespace in the order of its requests", () => {
    const { queue, add, run } = start();
    for (const name of ["a1", "a2", "a3"]) add(name, 2, "a");
    add("b1", 2, "b");
    assert.deepEqual(run(3), ["a1", "b1", "a1"]);
    assert.equal(queue.has("a1"), false);
    assert.deepEqual(run(99), ["b1", "a2", "a2", "a3", "a3"]);
    assert.equal(queue.size, 0);
  });

  it("fills several small groups of one namespace in one step, up to the work of a step", () => {
    const { begin, add, run } = start();
    const names = Array.from({ length: 40 }, (_, i) => `a${i}`);
    for (const name of names) begin(name, 1, "a");
    add("b1", 2, "b");
    assert.deepEqual(run(1), names.slice(0, 32));
    assert.deepEqual(run(1), ["b1"]);
    assert.deepEqual(run(1), names.slice(32));
    begin("c1", 60, "c");
    begin("c2", 70, "c");
    assert.deepEqual(run(99), ["b1", "c1", "c2", "c2"]);
  });

  it("does a step of a group in the turn of each namespace that waits for it", () => {
    const { add, run } = start();
    add("shared", 4, "a", "b");
    add("c", 4, "c");
    assert.deepEqual(run(6), ["shared", "shared", "c", "shared", "shared", "c"]);
  });

  it("fills a group that namespaces share, although each always has other groups to fill", () => {
    const { queue, add, run } = start();
    const own = ["a1", "a2", "a3", "b1", "b2", "b3"];
    const addOwn = (): void => {
      for (const name of own) if (!queue.has(name)) add(name, 1, name.slice(0, 1));
    };
    addOwn();
    const shared = new Owners();
    for (const name of ["a", "b"]) shared.note(name, 1);
    add("shared", 1);
    queue.addOwnersAsWaiters("shared", shared);
    const log: string[] = [];
    for (let step = 0; step < 24; step++) {
      log.push(...run(1));
      addOwn();
    }
    assert.equal(queue.has("shared"), false);
    for (const name of own) assert.ok(log.filter((each) => each === name).length >= 3);
  });

  it("fills groups that no namespace waits for after all others", () => {
    const { queue, add, run } = start();
    add("unwanted", 1);
    add("a", 2, "a");
    assert.deepEqual(run(3), ["a", "a", "unwanted"]);
    add("wanted", 1);
    add("b", 1, "b");
    queue.addWaiter("wanted", "c");
    assert.deepEqual(run(3), ["b", "wanted"]);
  });

  it("does no step of a deleted group, and keeps no turn for it", () => {
    const { queue, add, run } = start();
    add("a1", 2, "a", "b");
    add("a2", 1, "a");
    queue.delete("a1");
    queue.delete("a1");
    assert.deepEqual(run(9), ["a2"]);
    queue.addWaiter("a1", "a");
    assert.equal(queue.size, 0);
  });

  it("records owners of groups in steps, and treats all namespaces as waiting until then", () => {
    const { queue, begin, run } = start();
    const names = Array.from({ length: 5000 }, (_, i) => `n${i}`);
    let read = 0;
    const reading = (key: number) => ({
      key: BigInt(key),
      size: names.length,
      names: () => (read++, names),
    });
    const groups = ["g0", "g1", "g2"];
    for (const [i, group] of groups.entries()) {
      begin(group, podsPerStep + 1);
      queue.addOwnersAsWaiters(group, reading(i));
    }
    begin("same", 1);
    queue.addOwnersAsWaiters("same", reading(0));
    for (const [step, group] of groups.entries()) {
      assert.equal(read, step);
      assert.ok(queue.isAwaitedBy("other"));
      assert.deepEqual(run(1), [group]);
    }
    // All that "g0" shares with "same" stays until both are filled.
    assert.deepEqual(run(1), ["g0", "same"]);
    assert.ok(!queue.isAwaitedBy("other"));
    assert.ok(queue.isAwaitedBy("n4999"));
    assert.deepEqual([run(1), run(1)], [["g1"], ["g2"]]);
    assert.equal(queue.isAwaitedBy("n4999"), false);
    assert.equal(read, 3);
  });

  it("fills a group with few changed pods, however often its very many owners change", () => {
    const { queue, begin, run } = start();
    const owners = new Owners();
    for (let i = 0; i < 2000; i++) owners.note(`n${i}`, 1);
    begin("few", 3);
    begin("many", 9 * podsPerStep);
    const log: string[] = [];
    for (let step = 0; step < 20 && queue.size > 0; step++) {
      owners.note(`more${step}`, 1);
      for (const group of ["few", "many"]) queue.addOwnersAsWaiters(group, owners);
      log.push(...run(1));
    }
    assert.equal(queue.size, 0);
    assert.deepEqual(log, ["few", ...Array<string>(9).fill("many")]);
    assert.equal(queue.isAwaitedBy("n0"), false);
  });

  it("records no owners of a deleted group", () => {
    const { queue, begin, run } = start();
    const owners = new Owners();
    owners.note("a", 1);
    begin("g", 1);
    queue.addOwnersAsWaiters("g", owners);
    queue.delete("g");
    queue.addOwnersAsWaiters("g", owners);
    assert.equal(queue.isAwaitedBy("a"), false);
    assert.deepEqual(run(9), []);
  });

  it("does steps of groups with the same owners in the turn of each owner", () => {
    const { queue, add, run } = start();
    const owners = new Owners();
    for (const name of ["a", "b"]) owners.note(name, 1);
    add("z1", 1, "z");
    for (const name of ["shared1", "shared2"]) {
      add(name, 2);
      queue.addOwnersAsWaiters(name, owners);
    }
    assert.deepEqual(run(1), ["z1"]); // it notes the owners, too
    add("a1", 1, "a");
    add("c1", 3, "c");
    assert.deepEqual(run(3), ["shared1", "shared1", "c1"]);
    // Later owners do not end what the others wait for.
    owners.note("b", -1);
    owners.note("d", 1);
    assert.ok(queue.isAwaitedBy("b") && !queue.isAwaitedBy("d"));
    queue.addOwnersAsWaiters("shared2", owners);
    assert.deepEqual(run(99), ["shared2", "shared2", "c1", "a1", "c1"]);
    for (const name of ["a", "b", "c", "d"]) assert.equal(queue.isAwaitedBy(name), false);
  });
});
