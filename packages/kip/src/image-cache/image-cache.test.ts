// The keeper with an in-memory API server, registries on loopback, and the test's own clock.
import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import type { ServerResponse } from "node:http";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { createLogger } from "@kip/base";
import { paths } from "@kip/k8s-client";
import { hostPlatform } from "@kip/oci-image";
import {
  eventually,
  ManualClock,
  startLayoutRegistry,
  tar,
  temporaryFolder,
  writeLayout,
} from "@kip/testing";
import { ApiServer } from "../testing/faults/api-server.ts";
import { startImageCache, type ImageCacheOptions, type RunningImageCache } from "./image-cache.ts";

const second = 1000;
/** Shorter than a watch may be silent, because this API server rarely sends anything. */
const times = {
  fillTimeoutMs: 90 * second,
  refreshMs: 60 * second,
  collectMs: 10 * second,
  unusedForMs: 120 * second,
};

/** A registry with one image. It works, sends blobs byte by byte, or fails. */
interface Place {
  readonly name: string;
  readonly hexes: readonly string[];
  readonly requests: readonly string[];
  state: "good" | "slow" | "failing";
  /** Open responses of a slow registry, for sending more. */
  readonly open: readonly ServerResponse[];
}

class World implements AsyncDisposable {
  readonly clock = new ManualClock(Date.now());
  readonly api = new ApiServer(this.clock);
  readonly #stack = new AsyncDisposableStack();
  readonly folder = this.#stack.use(temporaryFolder()).path;
  readonly cache = path.join(this.folder, "cache");
  readonly hosts: { readonly host: string; readonly endpoint: string }[] = [];
  log = "";

  /** Starts the keeper. @returns the keeper, and a function that stops it like a restart does */
  start(options: Partial<ImageCacheOptions> & { readonly listed?: readonly string[] } = {}): {
    readonly keeper: RunningImageCache;
    readonly stop: () => Promise<void>;
  } {
    const abort = new AbortController();
    const keeper = startImageCache({
      client: this.api.client,
      cache: this.cache,
      settings: this.settings(options.listed ?? []),
      nodes: new Set(["kip"]),
      platforms: [hostPlatform()],
      allowsPrivate: false,
      usesPullSecrets: false,
      parallel: 2,
      leastBytesPerSecond: 1024,
      ...times,
      clock: this.clock,
      logger: createLogger({ level: "info", write: (line) => (this.log += line) }),
      signal: abort.signal,
      ...options,
    });
    const stop = async (): Promise<void> => {
      abort.abort();
      await keeper.stopped;
    };
    this.#stack.defer(stop);
    return { keeper, stop };
  }

  settings(listed: readonly string[]): ImageCacheOptions["settings"] {
    return { registries: this.hosts, dockerConfig: undefined, proxy: undefined, listed };
  }

  async place(name: string): Promise<Place> {
    const layout = path.join(this.folder, name);
    const { digest } = writeLayout(layout, {
      layers: [tar([{ name, content: name.repeat(100_000) }])],
    });
    const open: ServerResponse[] = [];
    const registry = await startLayoutRegistry(layout, ({ url = "" }, response) => {
      if (url.endsWith("/manifests/1")) response.setHeader("docker-content-digest", digest);
      if (place.state === "failing") response.writeHead(500).end();
      const isHeld = place.state === "slow" && url.includes("/blobs/");
      if (isHeld) open.push(response.writeHead(200, { "content-length": 500 }));
      if (isHeld) response.write("x");
      return place.state === "failing" || isHeld;
    });
    this.#stack.use(registry);
    const { host, endpoint, requests } = registry;
    this.hosts.push({ host, endpoint });
    const hexes = readdirSync(path.join(layout, "blobs/sha256"));
    const place: Place = { name: `${host}/${name}:1`, hexes, requests, state: "good", open };
    return place;
  }

  async createPod(name: string, image: string): Promise<void> {
    const spec = { nodeName: "kip", containers: [{ name: "main", image }] };
    await this.api.client.create(paths.pods("default"), { metadata: { name }, spec });
    await this.clock.advance(second);
  }

  async deletePod(name: string): Promise<void> {
    await this.api.client.delete(paths.pods("default", name), { graceSeconds: 0 });
    await this.clock.advance(second);
  }

  #names(): readonly string[] {
    const blobs = path.join(this.cache, "blobs/sha256");
    return existsSync(blobs) ? readdirSync(blobs) : [];
  }

  has({ hexes }: Place): boolean {
    return hexes.every((hex) => this.#names().includes(hex));
  }

  hasNone({ hexes }: Place): boolean {
    return hexes.every((hex) => !this.#names().includes(hex));
  }

  /** Advances the clock by a second at each check until the condition is met. Real input and output take place meanwhile. */
  async until(what: string, condition: () => boolean): Promise<void> {
    const look = async (): Promise<boolean> => {
      await this.clock.advance(second);
      return condition();
    };
    await eventually(look, { what });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

function imagesOf(keeper: RunningImageCache, state: string): number {
  const family = keeper.families().find(({ name }) => name === "kip_image_cache_images");
  return family?.samples.find(({ labels }) => labels?.["state"] === state)?.value ?? Number.NaN;
}

function lastLook(keeper: RunningImageCache): number {
  const name = "kip_image_cache_last_collection_timestamp_seconds";
  return keeper.families().find((family) => family.name === name)?.samples[0]?.value ?? 0;
}

async function world(context: TestContext): Promise<World> {
  const made = new World();
  context.after(async () => await made[Symbol.asyncDispose]());
  return await Promise.resolve(made);
}

describe("startImageCache()", { timeout: 120_000 }, () => {
  it("fills from pods and the list, follows the list, and removes what is no longer named", async (context) => {
    const at = await world(context);
    const [app, base] = [await at.place("app"), await at.place("base")];
    const { keeper } = at.start({ listed: [base.name] });
    await at.createPod("web", app.name);
    await at.until("both are there", () => at.has(app) && at.has(base));
    await at.until("both are counted", () => imagesOf(keeper, "current") === 2);
    keeper.change(at.settings([]));
    await at.clock.advance(100 * second);
    assert.ok(at.has(base), "it may be unused for 120 s");
    await at.until("the listed image lost its name", () => at.hasNone(base));
    assert.ok(at.has(app));
    await at.deletePod("web");
    await at.until("the pod's image lost its name", () => at.hasNone(app));
  });

  it("asks only for headers after a restart, and then collects", async (context) => {
    const at = await world(context);
    const [app, old] = [await at.place("app"), await at.place("old")];
    await at.createPod("web", app.name);
    await at.createPod("gone", old.name);
    const first = at.start();
    await at.until("both are there", () => at.has(app) && at.has(old));
    await first.stop();
    await at.deletePod("gone");
    await at.clock.advance(150 * second);
    const before = app.requests.length;
    const { keeper } = at.start();
    await at.until("it is known", () => imagesOf(keeper, "current") === 1);
    assert.deepEqual(app.requests.slice(before), ["HEAD /v2/app/manifests/1 -"]);
    await at.until("what no pod names lost its name", () => at.hasNone(old));
    assert.ok(at.has(app), "it is in use");
  });

  it("gives up images that take longer than the limit, fills others, and collects meanwhile", async (context) => {
    const at = await world(context);
    const [slow, slower, app] = [await at.place("a"), await at.place("b"), await at.place("app")];
    slow.state = slower.state = "slow";
    // Fast enough for the minimum rate, so only the time limit ends it.
    const { keeper } = at.start({ listed: [slow.name, slower.name], leastBytesPerSecond: 0 });
    await at.until("both places are taken", () => slow.open.length + slower.open.length === 2);
    await at.until("it looked for what is unused", () => lastLook(keeper) > 0);
    await at.createPod("web", app.name);
    assert.deepEqual(app.requests, [], "it waits for a place");
    await at.until("the pod's image is there", () => at.has(app));
    assert.match(at.log, /IMAGE_FILL_TIMEOUT/);
    assert.equal(imagesOf(keeper, "failing"), 2);
    await at.clock.advance(40 * second);
    assert.equal(slow.open.length, 1, "it waits for as long as a refresh does");
    slow.state = slower.state = "good";
    await at.until("they are there", () => at.has(slow) && at.has(slower));
    await at.until("all are counted", () => imagesOf(keeper, "current") === 3);
  });

  it("gives up a registry that sends less than the least rate for a minute", async (context) => {
    const at = await world(context);
    const [slow, app] = [await at.place("a"), await at.place("app")];
    slow.state = "slow";
    at.start({ listed: [slow.name], parallel: 1, leastBytesPerSecond: 2048 });
    await at.until("a blob has begun", () => slow.open.length === 1);
    await at.createPod("web", app.name);
    await at.until("the pod's image is there", () => {
      slow.open[0]?.write("x");
      return at.has(app);
    });
    assert.match(at.log, /REGISTRY_TOO_SLOW/);
  });

  it("asks a failing registry again with growing pauses, and removes nothing until it has answered", async (context) => {
    const at = await world(context);
    const [app, old] = [await at.place("app"), await at.place("old")];
    const first = at.start({ listed: [app.name, old.name] });
    await at.until("both are there", () => at.has(app) && at.has(old));
    await first.stop();
    await at.clock.advance(150 * second);
    app.state = "failing";
    const { keeper } = at.start({ listed: [app.name] });
    await at.until("it failed", () => imagesOf(keeper, "failing") === 1);
    await at.clock.advance(60 * second);
    assert.ok(at.has(old) && at.has(app), "what the name means may be any of it");
    assert.equal(lastLook(keeper), 0);
    app.state = "good";
    await at.until("it is known", () => imagesOf(keeper, "current") === 1);
    await at.until("the other one lost its name", () => at.hasNone(old));
    assert.ok(at.has(app));
  });
});
