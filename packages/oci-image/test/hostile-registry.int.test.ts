// Registries, and attackers between them and the client, that try to get credentials, time or control of the user's terminal.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import http, { type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { describe, it } from "node:test";
import { inspect } from "node:util";
import { gzipSync } from "node:zlib";
import { silentLogger } from "@kip/base";
import {
  EagerClock,
  startLayoutRegistry,
  tar,
  temporaryFolder,
  writeLayout,
  type LayoutImage,
  type LayoutRegistry,
  type RequestHandler,
} from "@kip/testing";
import {
  openImageStore,
  parseReference,
  type PulledImage,
  type PullOptions,
} from "../src/index.ts";

interface Trial {
  readonly layout: string;
  readonly registry: LayoutRegistry;
  readonly pull: (more?: {
    readonly mirrors?: readonly string[];
    readonly proxy?: PullOptions["proxy"];
  }) => Promise<PulledImage>;
}

async function trial(
  handler: RequestHandler,
  run: (trial: Trial) => Promise<void>,
  image: LayoutImage = { layers: [tar([{ name: "one", content: "1" }])] },
): Promise<void> {
  using work = temporaryFolder();
  const layout = path.join(work.path, "layout");
  writeLayout(layout, image);
  await using registry = await startLayoutRegistry(layout, handler);
  const root = path.join(work.path, "store");
  const store = await openImageStore({ root, logger: silentLogger, clock: new EagerClock() });
  const { host } = registry;
  const own = { host, endpoint: `http://${host}`, username: "ann", password: "geheim" };
  await run({
    layout,
    registry,
    pull: async ({ mirrors, proxy } = {}) =>
      await store.pull(parseReference(`${host}/app`), {
        registries: [{ ...own, ...(mirrors && { mirrors }) }],
        ...(proxy && { proxy }),
      }),
  });
  assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
}

const isBlob = (url: string | undefined): boolean => url?.includes("/blobs/") ?? false;

describe("a hostile registry", () => {
  it("CVE-2020-15157: a server that it redirects to asks for its credentials, and gets none", async () => {
    await using elsewhere = await startLayoutRegistry("", (request, response) => {
      const realm = `http://${request.headers.host}/token`;
      if (request.url === "/token") response.end(JSON.stringify({ token: "t" }));
      else response.writeHead(401, { "www-authenticate": `Bearer realm="${realm}"` }).end();
      return true;
    });
    const handler: RequestHandler = (request, response) => {
      if (request.headers.authorization === undefined) {
        response.writeHead(401, { "www-authenticate": 'Basic realm="own"' }).end();
        return true;
      }
      if (!isBlob(request.url)) return false;
      response.writeHead(307, { location: `http://${elsewhere.host}/blob` }).end();
      return true;
    };
    await trial(handler, async ({ pull, registry }) => {
      await assert.rejects(pull(), { code: "REGISTRY_UNAUTHORIZED" });
      assert.match(registry.requests.at(-1) ?? "", / Basic /);
      assert.deepEqual([...new Set(elsewhere.requests)], ["GET /blob -"]);
    });
  });

  it("sends a byte of a blob and cuts, again and again: it is left", async () => {
    const layer = tar([{ name: "one", content: Buffer.alloc(300_000, "a") }]);
    let cuts = 0;
    const handler: RequestHandler = (request, response) => {
      const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
      if (!isBlob(request.url) || cuts > 20) return false;
      const hex = /([0-9a-f]{64})$/.exec(request.url ?? "")?.[1] ?? "";
      const blob = blobs.get(hex);
      if (!blob) return false;
      cuts++;
      const range = { "content-range": `bytes ${start}-${blob.length - 1}/${blob.length}` };
      response.writeHead(start > 0 ? 206 : 200, start > 0 ? range : {});
      response.write(blob.subarray(start, start + 1), () => setImmediate(() => response.destroy()));
      return true;
    };
    const blobs = new Map<string, Buffer>();
    await trial(
      handler,
      async ({ layout, pull }) => {
        for (const name of readdirSync(path.join(layout, "blobs/sha256"))) {
          const blob = readFileSync(path.join(layout, "blobs/sha256", name));
          if (blob.length > 100_000) blobs.set(name, blob);
        }
        await assert.rejects(pull(), { code: "REGISTRY_UNREACHABLE" });
        assert.ok(cuts <= 6, `${cuts}`);
      },
      { layers: [layer], compression: "none" },
    );
  });

  it("sends us elsewhere with words that never end: they are not listened to", async () => {
    const closed = Promise.withResolvers<void>();
    const handler: RequestHandler = (request, response) => {
      if (!isBlob(request.url)) return false;
      if (request.url?.startsWith("/again")) {
        // Only once it is known that the client has stopped reading.
        void closed.promise.then(() => serveBlob(layoutFolder, request.url ?? "", response));
        return true;
      }
      response.writeHead(302, { location: `/again${request.url}` });
      response.on("close", () => closed.resolve());
      const more = (): void =>
        void (response.destroyed || response.write("x".repeat(1000), () => setImmediate(more)));
      more();
      return true;
    };
    let layoutFolder = "";
    await trial(handler, async ({ layout, pull }) => {
      layoutFolder = layout;
      await pull();
    });
  });

  it("sends answers that trickle before each blob: their connections are not kept", async () => {
    const open = new Set<ServerResponse>();
    let most = 0;
    const handler: RequestHandler = (request, response) => {
      const { url = "" } = request;
      if (!isBlob(url)) return false;
      if (url.startsWith("/again/again/again")) {
        serveBlob(layoutFolder, url, response);
        return true;
      }
      response.writeHead(307, { location: `/again${url}` });
      // The response announces more than it will send.
      response.write("x");
      open.add(response);
      response.on("close", () => open.delete(response));
      most = Math.max(most, open.size);
      return true;
    };
    let layoutFolder = "";
    const image = { layers: Array.from({ length: 40 }, (_, index) => tar([{ name: `${index}` }])) };
    await trial(
      handler,
      async ({ layout, pull }) => {
        layoutFolder = layout;
        await pull();
      },
      image,
    );
    // Three for each blob, 123 in all.
    assert.ok(most > 3 && most < 40, `${most} connections`);
  });

  it("refuses with a large page: it is what its status says", async () => {
    for (const [status, code] of [
      [404, "IMAGE_NOT_FOUND"],
      [503, "REGISTRY_UNREACHABLE"],
    ] as const) {
      const handler: RequestHandler = (_request, response) => {
        response.writeHead(status).end(Buffer.alloc(300_000, "<"));
        return true;
      };
      await trial(handler, async ({ pull }) => await assert.rejects(pull(), { code }));
    }
  });

  it("has a token service that refuses with a large page: it is what its status says", async () => {
    for (const [status, code] of [
      [403, "REGISTRY_UNAUTHORIZED"],
      [503, "REGISTRY_UNREACHABLE"],
    ] as const) {
      const handler: RequestHandler = (request, response) => {
        const realm = `http://${request.headers.host}/token`;
        if (request.url?.startsWith("/token")) {
          response.writeHead(status).end(Buffer.alloc(3_000_000, "<"));
        } else response.writeHead(401, { "www-authenticate": `Bearer realm="${realm}"` }).end();
        return true;
      };
      await trial(handler, async ({ pull }) => await assert.rejects(pull(), { code }));
    }
  });

  it("is named with a password in its address: the failure does not show it", async () => {
    const handler: RequestHandler = () => false;
    for (const address of [
      "https://ann:geheim@registry.example.com",
      "https://:geheim@registry.example.com",
      "https://ann:geheim@registry.example.com:port",
    ]) {
      await trial(handler, async ({ pull }) => {
        await assert.rejects(pull({ mirrors: [address] }), (error) => {
          assert.match(String(error), /the endpoint of registry registry\.example\.com/);
          assert.doesNotMatch(inspect(error, { depth: 9 }), /geheim/);
          return true;
        });
      });
    }
  });

  it("has a token service that gives anything but a token", async () => {
    for (const answer of ["<html>", "null", '{"token":5}', '{"token":"a b"}']) {
      const handler: RequestHandler = (request, response) => {
        const realm = `http://${request.headers.host}/token`;
        if (request.url?.startsWith("/token")) response.end(answer);
        else response.writeHead(401, { "www-authenticate": `Bearer realm="${realm}"` }).end();
        return true;
      };
      await trial(handler, async ({ pull }) => {
        await assert.rejects(pull(), {
          code: "REGISTRY_UNAUTHORIZED",
          message: /^Cannot pull image .*gave no token$/,
        });
      });
    }
  });

  it("writes to our screen by the names it gives", async () => {
    const clear = "\u001b[2J\u009b2J\r\u202e";
    const editManifest = (manifest: Record<string, unknown>): void => {
      manifest["mediaType"] = clear + "x".repeat(10_000);
    };
    const handler: RequestHandler = (request, response) => {
      if (request.url?.includes("/manifests/")) {
        response.setHeader("content-type", "application/vnd.oci.image.manifest.v1+json");
      }
      return false;
    };
    const image = { layers: [tar([])], editManifest };
    await trial(
      handler,
      async ({ pull }) =>
        await assert.rejects(pull(), (error: Error) => {
          assert.match(error.message, /but says it is/);
          assert.doesNotMatch(error.message, /[\p{Cc}\p{Cf}]/u);
          return error.message.length < 3000;
        }),
      image,
    );
  });

  it("lies in an index about a manifest's size", async () => {
    await trial(
      () => false,
      async ({ layout, pull }) => {
        const names = readdirSync(path.join(layout, "blobs/sha256"));
        const index = names.find((name) => read(layout, name).includes('"manifests"')) ?? "";
        const text = read(layout, index).replace(/"size":\d+/, '"size":7');
        writeFileSync(path.join(layout, "blobs/sha256", index), text);
        await assert.rejects(pull(), { code: "IMAGE_DIGEST_MISMATCH", message: /7 bytes/ });
      },
      { layers: [tar([])], isIndexed: true },
    );
  });
});

describe("a hostile mirror", () => {
  it("sends what cannot be unpacked: the registry's is taken", async () => {
    const layer = tar([{ name: "one", content: Buffer.alloc(3_000_000, "a") }]);
    const evil = tar([{ name: "../out", content: "x" }]);
    const same = (bytes: Buffer): Buffer => Buffer.concat([bytes], layer.length);
    for (const bytes of [same(Buffer.from("no archive")), same(evil), same(gzipSync(evil))]) {
      await trial(
        () => false,
        async ({ layout, pull, registry }) => {
          const files = readdirSync(path.join(layout, "blobs/sha256"));
          const largest = files.find((name) => read(layout, name).length === layer.length);
          await using mirror = await startLayoutRegistry(layout, (request, response) => {
            if (!request.url?.endsWith(largest ?? "none")) return false;
            response.end(bytes);
            return true;
          });
          await pull({ mirrors: [`http://${mirror.host}`] });
          assert.ok(registry.requests.length > 0);
        },
        { layers: [layer], compression: "none" },
      );
    }
  });
});

describe("a list of hosts without a proxy", () => {
  it("may have masks of networks, as Go and curl read it", async () => {
    const asked: string[] = [];
    const proxy = http.createServer((request, response) => {
      asked.push(request.url ?? "");
      response.writeHead(404).end();
    });
    proxy.listen(0, "127.0.0.1");
    await once(proxy, "listening");
    const HTTP_PROXY = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`; // a TCP server's
    try {
      await trial(
        () => false,
        async ({ pull }) => {
          await pull({ proxy: { HTTP_PROXY, NO_PROXY: "10.0.0.0/8, 127.0.0.0/8" } });
          assert.deepEqual(asked, []);
          for (const no_proxy of ["10.0.0.0/8", "127.0.0.1/33", "127.0.1.0/24"]) {
            await assert.rejects(pull({ proxy: { HTTP_PROXY, no_proxy } }));
          }
          assert.equal(asked.length, 3);
        },
      );
    } finally {
      proxy.closeAllConnections();
      proxy.close();
    }
  });
});

function serveBlob(layout: string, url: string, response: http.ServerResponse): void {
  const hex = /([0-9a-f]{64})$/.exec(url)?.[1] ?? "";
  response.end(readFileSync(path.join(layout, "blobs/sha256", hex)));
}

function read(layout: string, name: string): string {
  return readFileSync(path.join(layout, "blobs/sha256", name), "latin1");
}
