import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { DocumentPlaces } from "./document-places.ts";

const mebibyte = 2 ** 20;

/** Sends documents, which are pending until the test lets their agents read them. */
function start({ spare = 0 } = {}) {
  const places = new DocumentPlaces({ small: mebibyte, large: 8 * mebibyte, spare });
  const made: string[] = [];
  const readers = new Map<string, () => void>();
  const send = async (
    name: string,
    bytes: number,
    { namespace = "default", expected = bytes, signal = new AbortController().signal } = {},
  ): Promise<void> => {
    const make = () => {
      made.push(name);
      return { document: name, bytes };
    };
    const use = async (): Promise<void> => {
      const { promise, resolve } = Promise.withResolvers<void>();
      readers.set(name, resolve);
      await promise;
    };
    await places.send({ namespace, bytes: expected }, { make, use }, signal);
  };
  const read = async (name: string): Promise<void> => {
    readers.get(name)?.();
    await settle();
  };
  return { made, readers, send, read };
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await setImmediate();
}

describe("DocumentPlaces", () => {
  it("makes no document before it has a place, and gives half of the places to one namespace", async () => {
    const { made, send, read } = start();
    const all = ["a1", "a2", "a3"].map((name) => send(name, 2 * mebibyte));
    await settle();
    assert.deepEqual(made, ["a1", "a2"]);
    const others = [send("b1", 4 * mebibyte, { namespace: "b" })];
    await settle();
    assert.deepEqual(made, ["a1", "a2", "b1"]);
    await read("a1");
    assert.deepEqual(made, ["a1", "a2", "b1", "a3"]);
    for (const name of made) await read(name);
    await Promise.all([...all, ...others]);
  });

  it("gives turns to namespaces, and to a large document before smaller ones that came later", async () => {
    const { made, send, read } = start();
    const namespaces = ["a", "b"];
    const held = namespaces.map((namespace) => send(`${namespace}0`, 4 * mebibyte, { namespace }));
    await settle();
    const waiting = [
      send("a1", 3 * mebibyte, { namespace: "a" }),
      send("a2", mebibyte, { namespace: "a" }),
      send("c1", 8 * mebibyte, { namespace: "c" }),
      send("d1", mebibyte, { namespace: "d" }),
    ];
    await read("a0");
    assert.deepEqual(made, ["a0", "b0", "a1"]);
    await read("b0");
    assert.deepEqual(made, ["a0", "b0", "a1"]);
    await read("a1");
    assert.deepEqual(made.slice(3), ["c1"]);
    await read("c1");
    assert.deepEqual(made.slice(4), ["d1", "a2"]);
    for (const name of ["d1", "a2"]) await read(name);
    await Promise.all([...held, ...waiting]);
  });

  it("keeps places for short documents of namespaces that have none, when two have taken all", async () => {
    const { made, send, read } = start({ spare: 4 * mebibyte });
    const all = ["a1", "b1"].map((name) => send(name, 4 * mebibyte, { namespace: name }));
    await settle();
    // A document that waits for a place does not delay these, and none of them takes its place.
    all.push(send("c1", 8 * mebibyte, { namespace: "c" }));
    all.push(send("a2", 70_000, { namespace: "a1" }), send("d1", 2 * mebibyte, { namespace: "d" }));
    const short = ["e1", "f1", "g1", "h1", "i1"];
    all.push(...short.map((name) => send(name, mebibyte, { namespace: name })));
    all.push(send("e2", 70_000, { namespace: "e1" }));
    await settle();
    assert.deepEqual(made, ["a1", "b1", "e1", "f1", "g1", "h1"]);
    await read("f1");
    assert.deepEqual(made.slice(6), ["i1"]);
    await read("a1");
    await read("b1");
    assert.deepEqual(made.slice(7), ["c1"]);
    for (const name of ["c1", "e1", "g1", "h1", "i1", "a2", "d1", "e2"]) await read(name);
    await Promise.all(all);
  });

  it("has small documents wait for no large ones", async () => {
    const { made, send, read } = start();
    const all = ["a1", "a2", "a3"].map((name) => send(name, 4 * mebibyte));
    all.push(send("small", 5000));
    await settle();
    assert.deepEqual(made, ["a1", "small"]);
    for (const name of ["small", "a1", "a2", "a3"]) await read(name);
    await Promise.all(all);
  });

  it("makes a document again that is longer than was thought, when there is a place for it", async () => {
    const { made, readers, send, read } = start();
    const all = [send("a1", 4 * mebibyte), send("a2", 4 * mebibyte, { expected: 5000 })];
    await settle();
    assert.deepEqual([made, [...readers.keys()]], [["a1", "a2"], ["a1"]]);
    await read("a1");
    assert.deepEqual(made, ["a1", "a2", "a2"]);
    await read("a2");
    await Promise.all(all);
  });

  it("gives the event loop back after each document", async () => {
    const { made, send, read } = start();
    const all = ["a", "b", "c"].map((name) => send(name, mebibyte, { namespace: name }));
    const seen: number[] = [];
    for (let turn = 0; turn < 3; turn++) {
      await setImmediate();
      seen.push(made.length);
    }
    assert.deepEqual(seen, [1, 2, 3]);
    for (const name of ["a", "b", "c"]) await read(name);
    await Promise.all(all);
  });

  it("forgets what is no longer wanted, and gives places back when a document cannot be sent", async () => {
    const { made, send, read } = start();
    const abort = new AbortController();
    const first = send("a1", 4 * mebibyte);
    const second = send("a2", 4 * mebibyte, { signal: abort.signal });
    const third = send("a3", 4 * mebibyte);
    await settle();
    abort.abort(new Error("the pod is removed"));
    await assert.rejects(second, /the pod is removed/);
    await read("a1");
    assert.deepEqual(made, ["a1", "a3"]);
    await read("a3");
    await Promise.all([first, third]);
    const places = new DocumentPlaces({ small: mebibyte, large: 8 * mebibyte });
    const failing = {
      make: () => ({ document: "", bytes: 8 * mebibyte }),
      use: async () => await Promise.reject(new Error("the agent is gone")),
    };
    const { signal } = new AbortController();
    for (let time = 0; time < 3; time++)
      await assert.rejects(
        places.send({ namespace: "a", bytes: 8 * mebibyte }, failing, signal),
        /the agent is gone/,
      );
  });
});
