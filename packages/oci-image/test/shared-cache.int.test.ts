// Access to a cache that machines share: private images are only for clients that their registry accepts.
import assert from "node:assert/strict";
import { chmodSync, existsSync, readdirSync, statSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import path from "node:path";
import { describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import {
  startLayoutRegistry,
  tar,
  temporaryFolder,
  writeLayout,
  type LayoutRegistry,
} from "@kip/testing";
import {
  openImageStore,
  parseReference,
  prefetchImage,
  pushLayout,
  type PullOptions,
} from "../src/index.ts";
import { mediaTypes, type Descriptor } from "../src/manifest.ts";
import { hostPlatform } from "../src/platform.ts";
import { startRegistry } from "./fixtures/registry-process.ts";
import { missing } from "./fixtures/missing.ts";

const login = { username: "tenant", password: "s3cret" };
const basic = `Basic ${Buffer.from("tenant:s3cret").toString("base64")}`;

/** Serves `/v2/tenant/…` only to the tenant, and an index that names the tenant's manifest to everyone else. */
function guarded(stolen: Descriptor) {
  return (request: IncomingMessage, response: ServerResponse): boolean => {
    const { url = "", headers, method } = request;
    if (url.startsWith("/v2/tenant/")) {
      if (headers.authorization === basic) return false;
      response.writeHead(401, { "www-authenticate": 'Basic realm="test"' }).end();
      return true;
    }
    if (!url.startsWith("/v2/mallory/")) return false;
    const manifests = [{ ...stolen, platform: hostPlatform() }];
    const index = { schemaVersion: 2, mediaType: mediaTypes.ociIndex, manifests };
    // The attacker's own registry claims to have whatever is requested.
    const isThere = method === "HEAD" || url.endsWith("/manifests/latest");
    response.writeHead(isThere ? 200 : 404, { "content-type": mediaTypes.ociIndex });
    response.end(isThere ? JSON.stringify(index) : "");
    return true;
  };
}

async function withRegistry(
  work: string,
  use: (place: {
    readonly registry: LayoutRegistry;
    readonly cache: string;
    readonly as: (account: object) => PullOptions;
    readonly pull: (name: string, options: PullOptions) => Promise<readonly string[]>;
  }) => Promise<void>,
): Promise<void> {
  const layout = path.join(work, "layout");
  const manifest = writeLayout(layout, { layers: [tar([{ name: "source", content: "private" }])] });
  await using registry = await startLayoutRegistry(layout, guarded(manifest));
  const { host } = registry;
  let stores = 0;
  await use({
    registry,
    cache: path.join(work, "cache"),
    as: (account) => ({ registries: [{ host, endpoint: `http://${host}`, ...account }] }),
    pull: async (name, options) => {
      const root = path.join(work, `store-${stores++}`);
      const store = await openImageStore({ root, logger: silentLogger, clock: systemClock });
      registry.requests.length = 0;
      await store.pull(parseReference(`${host}/${name}`), options);
      return registry.requests.map((request) => request.split(" ").slice(0, 2).join(" "));
    },
  });
}

describe("a cache that machines share", () => {
  it("gives a private image to its repository's pullers, not to those who know its digest", async () => {
    using work = temporaryFolder();
    await withRegistry(work.path, async ({ registry, cache, as, pull }) => {
      const reference = parseReference(`${registry.host}/tenant/app`);
      const options = { ...as(login), allowsPrivate: true };
      assert.ok((await prefetchImage(reference, cache, options)).writtenBytes > 0);
      assert.equal((await prefetchImage(reference, cache, options)).writtenBytes, 0);
      await assert.rejects(pull("mallory/x", { ...as({}), cache }), { code: "IMAGE_NOT_FOUND" });
      // Also with a log-in for another repository of the same registry.
      await assert.rejects(pull("mallory/x", { ...as(login), cache }), { code: "IMAGE_NOT_FOUND" });
      await assert.rejects(pull("tenant/app", { ...as({}), cache }), {
        code: "REGISTRY_UNAUTHORIZED",
      });
      assert.deepEqual(await pull("tenant/app", { ...as(login), cache }), [
        "GET /v2/tenant/app/manifests/latest",
        "GET /v2/tenant/app/manifests/latest",
      ]);
    });
  });

  it("gives a public image to everybody who pulls an image with the same blobs", async () => {
    using work = temporaryFolder();
    await withRegistry(work.path, async ({ registry, cache, as, pull }) => {
      const reference = parseReference(`${registry.host}/public/app`);
      // An unnecessary log-in does not make the image private.
      assert.ok((await prefetchImage(reference, cache, as(login))).writtenBytes > 0);
      const requests = await pull("other/app", { ...as({}), cache });
      assert.deepEqual(requests, ["GET /v2/other/app/manifests/latest"]);
      // Public content is not stored again for one repository.
      const again = parseReference(`${registry.host}/tenant/app`);
      const options = { ...as(login), allowsPrivate: true, verifies: true };
      assert.equal((await prefetchImage(again, cache, options)).writtenBytes, 0);
    });
  });

  it("is not given private images unless that is wanted", async () => {
    using work = temporaryFolder();
    await withRegistry(work.path, async ({ registry, cache, as }) => {
      const reference = parseReference(`${registry.host}/tenant/app`);
      await assert.rejects(prefetchImage(reference, cache, as(login)), {
        code: "IMAGE_PRIVATE",
        message: /^Cannot prefetch image ".*\/tenant\/app:latest": it is private, and root on/,
      });
      await assert.rejects(prefetchImage(reference, cache, as({})), {
        code: "REGISTRY_UNAUTHORIZED",
      });
      assert.equal(existsSync(cache), false);
    });
  });

  it("takes what the registry means by a public name, not what a mirror has under it", async () => {
    using work = temporaryFolder();
    const layouts = ["public", "other"].map((content) => {
      const layout = path.join(work.path, content);
      return { layout, ...writeLayout(layout, { layers: [tar([{ name: "f", content }])] }) };
    });
    const [own, others] = [layouts[0]?.layout ?? "", layouts[1]?.layout ?? ""];
    await using registry = await startLayoutRegistry(own);
    await using mirror = await startLayoutRegistry(others, ({ headers }, response) => {
      if (headers.authorization === basic) return false;
      response.writeHead(401, { "www-authenticate": 'Basic realm="test"' }).end();
      return true;
    });
    const registries = [
      { host: registry.host, endpoint: registry.endpoint, mirrors: [mirror.endpoint] },
      { host: mirror.host, endpoint: mirror.endpoint, ...login },
    ];
    const cache = path.join(work.path, "cache");
    const reference = parseReference(`${registry.host}/app:1`);
    for (const allowsPrivate of [false, true]) {
      const { digest } = await prefetchImage(reference, cache, { registries, allowsPrivate });
      assert.equal(digest, layouts[0]?.digest);
      assert.ok(mirror.requests.length > 0, "the mirror was asked");
      assert.deepEqual(
        readdirSync(path.join(cache, "blobs/sha256")).sort(),
        readdirSync(path.join(own, "blobs/sha256")).sort(),
      );
    }
  });

  it(
    "knows private images of a real registry",
    { skip: missing({ programs: ["docker-registry", "htpasswd"] }) },
    async () => {
      using work = temporaryFolder();
      const layout = path.join(work.path, "layout");
      writeLayout(layout, { layers: [tar([{ name: "file" }])] });
      for (const guard of [{}, { basic: login }]) {
        const name = Object.keys(guard).join();
        const cache = path.join(work.path, `cache-${name}`);
        await using registry = await startRegistry(path.join(work.path, `data-${name}`), guard);
        const { host } = registry;
        const registries = [{ host, endpoint: `http://${host}`, ...login }];
        const reference = parseReference(`${host}/team/app`);
        await pushLayout(layout, reference, { registries });
        await prefetchImage(reference, cache, { registries, allowsPrivate: true });
        assert.deepEqual(readdirSync(cache), [name === "" ? "blobs" : "private"]);
      }
    },
  );

  it("lets its owner only to private images, until the administrator says otherwise", async () => {
    using work = temporaryFolder();
    await withRegistry(work.path, async ({ registry, cache, as }) => {
      const options = { ...as(login), allowsPrivate: true };
      const fill = async (name: string) =>
        await prefetchImage(parseReference(`${registry.host}/tenant/${name}`), cache, options);
      await fill("app");
      const gate = path.join(cache, "private");
      assert.equal(statSync(gate).mode & 0o7777, 0o700);
      chmodSync(gate, 0o750);
      await fill("other");
      assert.equal(statSync(gate).mode & 0o7777, 0o750);
      assert.equal(readdirSync(gate).length, 2);
    });
  });
});
