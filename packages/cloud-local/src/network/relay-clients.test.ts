import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RelayClients } from "./relay-clients.ts";

describe("RelayClients", () => {
  it("has room for so many connections at one time", () => {
    const clients = new RelayClients(2);
    assert.deepEqual([clients.enter(), clients.enter(), clients.enter()], [true, true, false]);
    clients.leave();
    assert.equal(clients.enter(), true);
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
