import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import type { IncomingMessage } from "node:http";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { silentLogger, type Clock } from "@kip/base";
import { K8sError } from "../errors.ts";
import type { ApiClient, Query } from "../client/api-client.ts";
import { createInformer, type InformerEvent } from "./informer.ts";

interface Item {
  readonly metadata: { readonly name: string; readonly uid: string; resourceVersion: string };
}

function item(name: string, resourceVersion: string): Item {
  return { metadata: { name, uid: `uid-${name}`, resourceVersion } };
}

/** A clock whose pauses end in the next turn and are counted. No time limit is ever reached. */
function hastyClock(): Clock & { readonly pauses: number[] } {
  return {
    pauses: [],
    now: () => 0,
    monotonic: () => 0,
    async sleep(ms, signal) {
      if (ms >= 60_000) return await untilAborted(signal);
      this.pauses.push(ms);
      await setImmediate();
    },
  };
}

async function untilAborted(signal: AbortSignal | undefined): Promise<void> {
  await new Promise((_resolve, reject) => {
    signal?.addEventListener("abort", () => reject(new Error("aborted")), { once: true });
  });
}

/** A collection whose responses the test defines. */
class FakeCollection {
  readonly lists: Query[] = [];
  readonly watches: Query[] = [];
  /** Answers to lists in order; the last one is repeated. */
  readonly pages: (Item[] | Error)[] = [];
  #next = Promise.withResolvers<PassThrough>();

  readonly client = {
    list: async (_path: string, { query = {} }: { query?: Query } = {}) => {
      this.lists.push(query);
      const page = this.pages.length > 1 ? this.pages.shift() : this.pages[0];
      if (page instanceof Error) throw page;
      return { metadata: { resourceVersion: String(100 + this.lists.length) }, items: page };
    },
    stream: async (_path: string, { query = {} }: { query?: Query } = {}) => {
      this.watches.push(query);
      const body = new PassThrough();
      this.#next.resolve(body);
      return body as unknown as IncomingMessage; // all that an informer uses of it
    },
  } as unknown as ApiClient; // all that an informer uses of it

  /** The next watch that is opened. */
  async watch(): Promise<PassThrough> {
    const body = await this.#next.promise;
    this.#next = Promise.withResolvers<PassThrough>();
    return body;
  }
}

function line(type: string, object: unknown): string {
  return `${JSON.stringify({ type, object })}\n`;
}

describe("createInformer()", () => {
  it("lists, watches, and goes on from a bookmark after the watch was cut", async (context) => {
    const fake = new FakeCollection();
    fake.pages.push([item("a", "1")]);
    const { informer, seen, stop } = start(fake);
    context.after(stop);
    await informer.synced;
    const first = await fake.watch();
    assert.equal(fake.watches[0]?.["resourceVersion"], "101");
    assert.equal(fake.watches[0]?.["allowWatchBookmarks"], true);
    first.write(line("ADDED", item("b", "102")));
    first.write(line("BOOKMARK", { metadata: { resourceVersion: "150" } }));
    first.end();
    const second = await fake.watch();
    assert.equal(fake.watches[1]?.["resourceVersion"], "150");
    second.destroy(new Error("cut"));
    await fake.watch();
    assert.equal(fake.watches[2]?.["resourceVersion"], "150");
    assert.equal(fake.lists.length, 1);
    assert.deepEqual(seen, ["added a", "added b"]);
  });

  it("gives no event once its signal has aborted, also none that it has received", async () => {
    const fake = new FakeCollection();
    fake.pages.push([item("a", "1"), item("b", "2")]);
    const abort = new AbortController();
    const seen: string[] = [];
    const { synced } = createInformer<Item>({
      client: fake.client,
      path: "/items",
      clock: hastyClock(),
      logger: silentLogger,
      signal: abort.signal,
      onEvent: ({ object }) => {
        seen.push(object.metadata.name);
        if (object.metadata.name === "c") abort.abort();
      },
    });
    await synced;
    const body = await fake.watch();
    body.write(line("ADDED", item("c", "101")) + line("ADDED", item("d", "102")));
    body.end();
    await setImmediate();
    assert.deepEqual(seen, ["a", "b", "c"]);
  });

  it("lists again when the version is gone, and tells what it missed", async (context) => {
    const fake = new FakeCollection();
    fake.pages.push([item("a", "1"), item("b", "2")], [item("b", "9"), item("c", "8")]);
    const { informer, seen, stop } = start(fake);
    context.after(stop);
    await informer.synced;
    const body = await fake.watch();
    body.write(line("ERROR", { kind: "Status", code: 410, reason: "Expired" }));
    await fake.watch();
    assert.equal(fake.lists.length, 2);
    assert.deepEqual(seen, ["added a", "added b", "deleted a", "updated b", "added c"]);
    assert.equal(informer.error, undefined);
  });

  it("lists again after a second ERROR event in a row, and not after one or a cut", async (context) => {
    const fake = new FakeCollection();
    fake.pages.push([item("a", "1")], [item("a", "1"), item("b", "9")]);
    const { informer, seen, stop } = start(fake);
    context.after(stop);
    await informer.synced;
    const undeliverable = line("ERROR", { kind: "Status", code: 500, reason: "InternalError" });
    (await fake.watch()).write(undeliverable);
    const second = await fake.watch();
    second.write(line("MODIFIED", item("a", "3"))); // progress
    second.write(undeliverable);
    (await fake.watch()).destroy(new Error("cut"));
    (await fake.watch()).destroy(new Error("cut"));
    assert.equal(fake.lists.length, 1);
    (await fake.watch()).write(undeliverable);
    await fake.watch();
    assert.equal(fake.lists.length, 2);
    assert.equal(fake.watches.at(-1)?.["resourceVersion"], "102");
    assert.deepEqual(seen, ["added a", "updated a", "updated a", "added b"]);
  });

  it("pauses longer and longer while lists work and each watch is refused", async (context) => {
    const fake = new FakeCollection();
    fake.pages.push([item("a", "1")]);
    const { informer, clock, stop } = start(fake);
    context.after(stop);
    await informer.synced;
    const gone = line("ERROR", { kind: "Status", code: 410, reason: "Expired" });
    for (let count = 0; count < 6; count++) (await fake.watch()).write(gone);
    await fake.watch();
    assert.equal(clock.pauses.length, 5, "only the first is repeated at once");
    assert.ok((clock.pauses.at(-1) ?? 0) > 4 * (clock.pauses[0] ?? 0));
  });

  it("repeats a failing list with pauses, reports it, and syncs in the end", async (context) => {
    const fake = new FakeCollection();
    const refused = new K8sError("K8S_UNAVAILABLE", "no", { retryable: true });
    fake.pages.push(refused, refused, [item("a", "1")]);
    const errors: Error[] = [];
    const { informer, clock, stop } = start(fake, (error) => errors.push(error));
    context.after(stop);
    await informer.synced;
    assert.deepEqual(errors, [refused, refused]);
    assert.equal(clock.pauses.length, 2);
    assert.equal(informer.size, 1);
  });

  it("survives a handler that throws", async (context) => {
    const fake = new FakeCollection();
    fake.pages.push([item("a", "1"), item("b", "1")]);
    const stop = new AbortController();
    context.after(() => stop.abort());
    const informer = createInformer<Item>({
      client: fake.client,
      path: "/x",
      onEvent: () => {
        throw new Error("a fault of the caller's");
      },
      logger: silentLogger,
      clock: hastyClock(),
      signal: stop.signal,
    });
    await informer.synced;
    assert.equal(informer.size, 2);
  });

  it("rejects `synced` when it is stopped before its first list", async () => {
    const fake = new FakeCollection();
    fake.pages.push(new K8sError("K8S_UNAVAILABLE", "no", { retryable: true }));
    const { informer, stop } = start(fake);
    stop();
    await assert.rejects(informer.synced);
  });
});

function start(fake: FakeCollection, onError?: (error: Error) => void) {
  const seen: string[] = [];
  const controller = new AbortController();
  const clock = hastyClock();
  const informer = createInformer<Item>({
    client: fake.client,
    path: "/x",
    onEvent: ({ type, object }: InformerEvent<Item>) => {
      seen.push(`${type} ${object.metadata.name}`);
    },
    ...(onError && { onError }),
    logger: silentLogger,
    clock,
    signal: controller.signal,
  });
  return { informer, seen, clock, stop: () => controller.abort() };
}
