import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ObjectStore } from "./object-store.ts";

function object(name: string, uid: string, resourceVersion: string) {
  return { metadata: { namespace: "ns", name, uid, resourceVersion } };
}

const types = (events: readonly { readonly type: string }[]): string[] =>
  events.map(({ type }) => type);

describe("ObjectStore", () => {
  it("tells additions, updates and repetitions apart", () => {
    const store = new ObjectStore();
    assert.deepEqual(types(store.put(object("a", "1", "1"))), ["added"]);
    assert.deepEqual(types(store.put(object("a", "1", "2"))), ["updated"]);
    assert.deepEqual(types(store.put(object("a", "1", "2"))), []);
    assert.equal(store.byUid("1")?.metadata?.resourceVersion, "2");
    assert.equal(store.get("ns", "a")?.metadata?.uid, "1");
  });

  it("sees a deletion and an addition in an object with another UID", () => {
    const store = new ObjectStore();
    store.put(object("a", "1", "1"));
    assert.deepEqual(types(store.put(object("a", "2", "5"))), ["deleted", "added"]);
    assert.equal(store.byUid("1"), undefined);
    assert.equal(store.size, 1);
  });

  it("does not let the late deletion of a predecessor remove its successor", () => {
    const store = new ObjectStore();
    store.put(object("a", "1", "1"));
    store.put(object("a", "2", "5"));
    assert.deepEqual(store.remove(object("a", "1", "4")), []);
    assert.equal(store.get("ns", "a")?.metadata?.uid, "2");
  });

  it("becomes equal to a list, with the removals first", () => {
    const store = new ObjectStore();
    store.put(object("a", "1", "1"));
    store.put(object("b", "2", "1"));
    const list = [object("a", "9", "3"), object("c", "3", "3")];
    assert.deepEqual(types(store.replaceAll(list)), ["deleted", "deleted", "added", "added"]);
    assert.deepEqual(store.list("ns"), list);
    assert.deepEqual(store.list("other"), []);
  });
});
