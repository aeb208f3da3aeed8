import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RelayClients } from "./relay-clients.ts";

describe("RelayClients", () => {
  const [first, second] = ["127.0.0.1 30000", "127.0.0.1 30001"];
  /** Names of connections that were closed for others, and a function that adds one. */
  const evictions = (clients: RelayClients) => {
    const evicted: string[] = [];
    const enter = (port: string, name: string) =>
      clients.enter(port, () => void evicted.push(name));
    return { evicted, enter };
  };

  it("has room for so many connections at one time", () => {
    const { evicted, enter } = evictions(new RelayClients(2));
    const [one, two] = [enter(first, "one"), enter(first, "two")];
    assert.ok(one && two);
    assert.equal(enter(first, "three"), undefined);
    one.leave();
    one.leave();
    assert.ok(enter(first, "four"));
    assert.equal(enter(first, "five"), undefined);
    assert.deepEqual(evicted, []);
  });

  it("has room for so many of one port", () => {
    const { enter } = evictions(new RelayClients(5, 2));
    const [one, two] = [enter(first, "one"), enter(first, "two")];
    assert.ok(one && two);
    assert.equal(enter(first, "three"), undefined);
    assert.ok(enter(second, "four"));
    two.leave();
    assert.ok(enter(first, "five"));
    assert.equal(enter(first, "six"), undefined);
  });

  it("has connections of a closed relay make room for those of the next one at its port", () => {
    const clients = new RelayClients(5, 2);
    const evicted: string[] = [];
    let isServed = true;
    for (const name of ["a", "b"])
      assert.ok(
        clients.enter(
          first,
          () => void evicted.push(name),
          () => isServed,
        ),
      );
    assert.equal(
      clients.enter(first, () => {}),
      undefined,
    );
    isServed = false;
    for (let i = 0; i < 2; i++) assert.ok(clients.enter(first, () => {}));
    assert.equal(
      clients.enter(first, () => {}),
      undefined,
    );
    assert.deepEqual(evicted, ["a", "b"]);
  });

  it("has the port with the most connections make room for another one, half closed ones and old ones first", () => {
    const { evicted, enter } = evictions(new RelayClients(5));
    const connections = ["a", "b", "c", "d", "e"].map((name) => enter(first, name));
    connections[3]?.halfClose();
    connections[2]?.halfClose();
    for (const name of ["x", "y"]) assert.ok(enter(second, name));
    assert.deepEqual(evicted, ["d", "c"]);
    // It would have as many as the other port has now.
    assert.equal(enter(second, "z"), undefined);
    assert.equal(enter(first, "f"), undefined);
    connections[3]?.leave();
    assert.ok(enter("127.0.0.1 30002", "p"));
    assert.deepEqual(evicted, ["d", "c", "a"]);
  });

  it("forgets the UDP client that was silent for longest", () => {
    const clients = new RelayClients(2);
    const forgotten: string[] = [];
    const [one, two, three, four] = ["one", "two", "three", "four"].map((name) => ({ name }));
    const use = (flow = { name: "" }): void =>
      clients.use(flow, () => void forgotten.push(flow.name));
    for (const flow of [one, two, one, three]) use(flow);
    assert.deepEqual(forgotten, ["two"]);
    clients.end(three ?? {});
    use(four);
    assert.deepEqual(forgotten, ["two"]);
  });
});
