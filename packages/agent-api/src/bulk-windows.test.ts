import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { describe, it } from "node:test";
import { BulkWindows } from "./bulk-windows.ts";

const kibibyte = 1024;

/** The calls of a session that {@link BulkWindows} uses. */
class FakeSession extends EventEmitter {
  readonly closed = false;
  destroyed = false;
  /** Windows that were set, KiB. */
  readonly windows: number[] = [];
  confirms = true;
  #unconfirmed: (() => void)[] = [];

  setLocalWindowSize(): void {}

  settings({ initialWindowSize }: { initialWindowSize: number }, done: () => void): void {
    this.windows.push(initialWindowSize / kibibyte);
    this.#unconfirmed.push(done);
    if (this.confirms) this.confirm();
  }

  destroy(error: Error): void {
    this.destroyed = true;
    this.emit("destroyed", error);
  }

  confirm(): void {
    for (const done of this.#unconfirmed.splice(0)) done();
  }

  get session(): ClientHttp2Session {
    return this as unknown as ClientHttp2Session; // has what the windows use
  }
}

function open(windows: BulkWindows, session: FakeSession, count: number): EventEmitter[] {
  return Array.from({ length: count }, () => {
    const stream = new EventEmitter();
    windows.add(session.session, stream as ClientHttp2Stream);
    return stream;
  });
}

describe("BulkWindows", () => {
  it("shares 64 MiB among the streams of all connections, and leaves 64 KiB to each", () => {
    const windows = new BulkWindows();
    const [one, other, idle] = [new FakeSession(), new FakeSession(), new FakeSession()];
    for (const stream of open(windows, idle, 1)) stream.emit("close");
    const few = open(windows, one, 64);
    assert.deepEqual(one.windows, [1024]);
    const many = open(windows, other, 5000);
    assert.deepEqual(one.windows, [1024, 512, 256, 128, 64]);
    assert.equal(other.windows.at(-1), 64);
    for (const stream of many) stream.emit("close");
    assert.deepEqual(one.windows.slice(-2), [256, 512]);
    for (const stream of few.slice(16)) stream.emit("close");
    assert.equal(one.windows.at(-1), 1024);
    assert.deepEqual(idle.windows, [1024]);
  });

  it("does not change windows for each stream that comes and goes", () => {
    const windows = new BulkWindows();
    const one = new FakeSession();
    open(windows, one, 64);
    for (let count = 0; count < 100; count++)
      for (const stream of open(windows, one, 1)) stream.emit("close");
    assert.deepEqual(one.windows, [1024, 512]);
  });

  it("has one change unconfirmed at a time, and makes up for the others", () => {
    const windows = new BulkWindows();
    const one = new FakeSession();
    one.confirms = false;
    open(windows, one, 1000);
    assert.deepEqual(one.windows, [1024]);
    one.confirm();
    assert.deepEqual(one.windows, [1024, 64]);
  });

  it(
    "ends a connection whose peer keeps a large window, and no other",
    { timeout: 10_000 },
    async () => {
      const windows = new BulkWindows(20);
      const [honest, hostile] = [new FakeSession(), new FakeSession()];
      open(windows, honest, 1);
      open(windows, hostile, 1);
      hostile.confirms = false;
      const destroyed = once(hostile, "destroyed");
      open(windows, hostile, 250);
      const [error] = (await destroyed) as [Error];
      assert.equal(
        error.message,
        "Cannot read the answers of a cell: it does not confirm a setting within 20 ms",
      );
      assert.equal(honest.destroyed, false);
    },
  );

  it("keeps a connection whose confirmation comes late in the same turn as the limit", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const windows = new BulkWindows(20);
    const one = new FakeSession();
    one.confirms = false;
    open(windows, one, 1000);
    t.mock.timers.tick(20);
    one.confirm(); // before the immediate, and sets the next window
    await new Promise((resolve) => void setImmediate(resolve));
    assert.deepEqual(one.windows, [1024, 64]);
    assert.equal(one.destroyed, false);
  });
});
