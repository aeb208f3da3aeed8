import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Newest } from "./newest.ts";

describe("Newest", () => {
  it("gives its reader the last of the values that came meanwhile", async () => {
    const values = new Newest<number>();
    for (let value = 0; value < 1000; value++) values.push(value);
    const reader = values[Symbol.asyncIterator]();
    assert.equal((await reader.next()).value, 999);
    const next = reader.next();
    values.push(1);
    assert.equal((await next).value, 1);
    values.push(2);
    values.end();
    values.push(3);
    assert.equal((await reader.next()).value, 2);
    assert.equal((await reader.next()).done, true);
  });

  it("ends for a reader that waits", async () => {
    const values = new Newest<number>();
    const next = values[Symbol.asyncIterator]().next();
    values.end();
    assert.equal((await next).done, true);
  });
});
