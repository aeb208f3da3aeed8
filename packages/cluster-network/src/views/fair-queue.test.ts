import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FairQueue } from "./fair-queue.ts";

describe("FairQueue", () => {
  const item = (namespace: string, name = "") => ({ namespace, name });
  const serve = (turns: FairQueue<{ namespace: string; name: string }>, tookMs: number) => {
    const { next } = turns;
    if (!next) return undefined;
    turns.delete(next);
    turns.charge(next.namespace, tookMs);
    return next.namespace + next.name;
  };

  it("gives namespaces turns, and each its own items in their order", () => {
    const turns = new FairQueue<{ namespace: string; name: string }>();
    for (const name of ["1", "2", "3"]) turns.add(item("a", name));
    for (const name of ["1", "2"]) turns.add(item("b", name));
    assert.deepEqual(
      Array.from({ length: 6 }, () => serve(turns, 0)),
      ["a1", "b1", "a2", "b2", "a3", undefined],
    );
    assert.equal(turns.size, 0);
  });

  it("gives what belongs together one turn after the other", () => {
    const turns = new FairQueue<{ namespace: string; name: string }>(({ name }) => name.charAt(0));
    for (const name of ["x1", "y1", "x2", "y2", "x3"]) turns.add(item("a", name));
    turns.add(item("b", "y3"));
    assert.deepEqual(
      Array.from({ length: 7 }, () => serve(turns, 0)),
      ["ax1", "by3", "ax2", "ax3", "ay1", "ay2", undefined],
    );
    assert.equal(turns.size, 0);
  });

  it("lets a namespace whose items take long have as much time as others, not as many turns", () => {
    const turns = new FairQueue<{ namespace: string; name: string }>();
    for (let i = 0; i < 20; i++) turns.add(item("long"));
    for (let i = 0; i < 20; i++) turns.add(item("short"));
    const served = Array.from({ length: 12 }, () => {
      const isLong = turns.next?.namespace === "long";
      return serve(turns, isLong ? 10 : 1);
    });
    assert.equal(served.filter((name) => name === "long").length, 2);
  });

  it("serves what has waited for nothing at once, and with no more time than others had", () => {
    const turns = new FairQueue<{ namespace: string; name: string }>();
    for (let i = 0; i < 9; i++) turns.add(item("long"));
    for (let i = 0; i < 3; i++) serve(turns, 50);
    for (let i = 0; i < 9; i++) turns.add(item("new"));
    const served = Array.from({ length: 6 }, () => serve(turns, 50));
    assert.deepEqual(new Set(served.slice(0, 2)), new Set(["new", "long"]));
    assert.equal(served.filter((name) => name === "new").length, 3);
  });

  it("serves others in turn with a namespace whose one item comes again whenever it was served", () => {
    const turns = new FairQueue<{ namespace: string; name: string }>();
    for (let i = 0; i < 4; i++) turns.add(item("others"));
    const again = item("again");
    const served = Array.from({ length: 8 }, () => {
      turns.add(again);
      return serve(turns, 10);
    });
    assert.equal(served.filter((name) => name === "others").length, 4);
  });

  it("forgets what is deleted before its turn", () => {
    const turns = new FairQueue<{ namespace: string; name: string }>();
    const [first, second] = [item("a"), item("b")];
    for (const each of [first, second, first]) turns.add(each);
    turns.delete(first);
    turns.delete(first);
    assert.deepEqual([turns.size, turns.has(first), turns.next], [1, false, second]);
  });
});
