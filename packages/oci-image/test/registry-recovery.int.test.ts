// Problems that a pull survives: temporary failures, cut connections, dead mirrors, proxies. Also where it finds its
// credentials.
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { Secret, silentLogger } from "@kip/base";
import {
  EagerClock,
  startLayoutRegistry,
  tar,
  temporaryFolder,
  writeLayout,
  type LayoutRegistry,
  type RequestHandler,
} from "@kip/testing";
import {
  dockerConfigCredentials,
  openImageStore,
  parseReference,
  type PulledImage,
  type PullOptions,
  type RegistryConfig,
} from "../src/index.ts";

const content = Buffer.alloc(900_000, "some content of a file, over and over; ");
const layers = [tar([{ name: "one", content }]), tar([{ name: "two", content: "2" }])];

interface Trial {
  readonly layout: string;
  readonly registry: LayoutRegistry;
  readonly pauses: readonly number[];
  readonly pull: (
    more?: Partial<RegistryConfig>,
    options?: Partial<PullOptions>,
  ) => Promise<PulledImage>;
}

/** Pulls from a registry with a handler. Pauses are recorded and take no time. */
async function trial(handler: RequestHandler, run: (trial: Trial) => Promise<void>): Promise<void> {
  using work = temporaryFolder();
  const layout = path.join(work.path, "layout");
  writeLayout(layout, { layers, compression: "none" });
  await using registry = await startLayoutRegistry(layout, handler);
  const root = path.join(work.path, "store");
  const clock = new EagerClock();
  const { pauses } = clock;
  const store = await openImageStore({ root, logger: silentLogger, clock });
  const { host } = registry;
  const pull: Trial["pull"] = async (more, options) => {
    const registries = [{ host, endpoint: `http://${host}`, ...more }];
    const image = await store.pull(parseReference(`${host}/app`), { registries, ...options });
    assert.deepEqual(readFileSync(path.join(image.layers[0] ?? "", "one")), content);
    return image;
  };
  await run({ layout, registry, pauses, pull });
  assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
}

const blobOf = (layout: string, url: string | undefined): Buffer | undefined => {
  const hex = /blobs\/sha256:([0-9a-f]{64})$/.exec(url ?? "")?.[1];
  return hex === undefined ? undefined : readFileSync(path.join(layout, "blobs/sha256", hex));
};

/** Answers requests for large blobs. The registry answers all others. @param layout known once the trial runs */
function largeBlobs(
  layout: () => string,
  answer: (blob: Buffer, ...exchange: Parameters<RequestHandler>) => void,
): RequestHandler {
  return (request, response) => {
    const blob = blobOf(layout(), request.url);
    if (!blob || blob.length < 500_000) return false;
    answer(blob, request, response);
    return true;
  };
}

/** Sends the beginning of a blob, and then closes the connection. */
function sendCut(blob: Buffer, ...[, response]: Parameters<RequestHandler>): void {
  response.writeHead(200, { "content-length": `${blob.length}` });
  response.write(blob.subarray(0, 300_000), () => setImmediate(() => response.destroy()));
}

describe("a pull", () => {
  it("is repeated after a 503, and when the registry said after a 429 or a 503", async () => {
    const refusals: [status: number, retryAfter?: string][] = [[503], [429, "7"], [503, "9"]];
    const handler: RequestHandler = (_request, response) => {
      const [status, retryAfter] = refusals.shift() ?? [];
      if (status === undefined) return false;
      response.writeHead(status, retryAfter === undefined ? {} : { "retry-after": retryAfter });
      response.end();
      return true;
    };
    await trial(handler, async ({ pull, pauses }) => {
      await pull();
      assert.equal(pauses.length, 3);
      assert.ok((pauses[0] ?? 0) <= 250);
      assert.deepEqual(pauses.slice(1), [7000, 9000]);
    });
  });

  it("gives up after the attempts it was given, and at once on what asking again cannot change", async () => {
    for (const [status, requests] of [
      [503, 3],
      [404, 1],
      [403, 1],
    ] as const) {
      const handler: RequestHandler = (_request, response) => {
        response.writeHead(status).end();
        return true;
      };
      await trial(handler, async ({ pull, registry }) => {
        await assert.rejects(pull({}, { attempts: 3 }));
        assert.equal(registry.requests.length, requests);
      });
    }
  });

  for (const hasRanges of [true, false]) {
    it(`goes on where its connection was cut, ${hasRanges ? "by a range" : "passing over what it has"}`, async () => {
      const ranges: string[] = [];
      let layout = "";
      const answer = (blob: Buffer, ...[request, response]: Parameters<RequestHandler>): void => {
        const { range } = request.headers;
        ranges.push(range ?? "-");
        const asked = Number(/^bytes=(\d+)-$/.exec(range ?? "")?.[1] ?? 0);
        const start = hasRanges ? asked : 0;
        const head = { "content-length": `${blob.length - start}` };
        const place = { "content-range": `bytes ${start}-${blob.length - 1}/${blob.length}` };
        response.writeHead(start > 0 ? 206 : 200, start > 0 ? { ...head, ...place } : head);
        if (ranges.length === 4) response.end(blob.subarray(start));
        else {
          const piece = blob.subarray(start, asked + 200_000);
          response.write(piece, () => setImmediate(() => response.destroy()));
        }
      };
      const handler = largeBlobs(() => layout, answer);
      await trial(handler, async (it) => {
        ({ layout } = it);
        await it.pull();
        assert.equal(ranges.length, 4);
        assert.deepEqual([ranges[0], ranges.slice(1).includes("-")], ["-", false]);
      });
    });
  }

  it("is not taken in by a range that is not the one it asked for", async () => {
    let layout = "";
    const answer = (blob: Buffer, ...[request, response]: Parameters<RequestHandler>): void => {
      if (request.headers.range === undefined) sendCut(blob, request, response);
      else response.writeHead(206, { "content-range": `bytes 5-9/${blob.length}` }).end("wrong");
    };
    const handler = largeBlobs(() => layout, answer);
    await trial(handler, async (it) => {
      ({ layout } = it);
      await assert.rejects(it.pull(), { code: "REGISTRY_UNREACHABLE" });
    });
  });

  it("is of what the tag means now, and pinned from then on", async () => {
    await trial(
      () => false,
      async ({ layout, pull }) => {
        const first = await pull();
        writeLayout(layout, { layers: [...layers, tar([{ name: "three" }])], compression: "none" });
        const second = await pull();
        assert.notEqual(second.repoDigest, first.repoDigest);
      },
    );
  });

  it("takes a mirror first, and the registry where the mirror lacks something or is dead", async () => {
    await trial(
      () => false,
      async ({ layout, pull, registry }) => {
        const seen: string[] = [];
        const handler: RequestHandler = (request) => {
          seen.push(`${request.url} ${request.headers.authorization ?? "-"}`);
          return false;
        };
        await using mirror = await startLayoutRegistry(layout, handler);
        await using empty = await startLayoutRegistry(layout, (request, response) => {
          if (!request.url?.includes("/blobs/")) return false;
          response.writeHead(404).end();
          return true;
        });
        const dead = "http://127.0.0.1:1";
        const mirrors = [dead, `http://${empty.host}`, `http://${mirror.host}`];
        await pull({ mirrors, username: "ann", password: "geheim" });
        assert.deepEqual(registry.requests, []);
        assert.ok(seen.length >= 3);
        for (const request of seen) assert.match(request, / -$/);
        const again = await pull({ mirrors: [dead] });
        assert.ok(again.repoDigest.includes(registry.host));
      },
    );
  });

  it("takes the rest of a blob from the registry when a mirror fails on the way", async () => {
    await trial(
      () => false,
      async ({ layout, pull, registry }) => {
        const cut = largeBlobs(() => layout, sendCut);
        await using mirror = await startLayoutRegistry(layout, cut);
        await pull({ mirrors: [`http://${mirror.host}`] });
        // The rest of the blob, and what came after it.
        assert.match(registry.requests[0] ?? "", /^GET \/v2\/app\/blobs\//);
      },
    );
  });

  it("turns to the registry when a mirror sends something else", async () => {
    await trial(
      () => false,
      async ({ layout, pull, registry }) => {
        const altered = largeBlobs(
          () => layout,
          (blob, _request, response) => {
            response.end(Buffer.from(blob).fill(1, 5000, 6000));
          },
        );
        await using mirror = await startLayoutRegistry(layout, altered);
        await pull({ mirrors: [`http://${mirror.host}`] });
        assert.ok(registry.requests.length >= 4);
      },
    );
  });

  it("turns to the registry when a mirror has the image for another platform only", async () => {
    using work = temporaryFolder();
    for (const isIndexed of [true, false]) {
      const other = path.join(work.path, `${isIndexed}`);
      writeLayout(other, { layers, architecture: "mips64", isIndexed });
      await using mirror = await startLayoutRegistry(other);
      const mirrors = [`http://${mirror.host}`];
      await trial(
        () => false,
        async ({ pull, registry }) => {
          await pull({ mirrors });
          assert.match(registry.requests[0] ?? "", /manifests\/latest/);
          registry.requests.length = 0;
          // If the registry itself lacks something, it is not requested twice.
          const platform = { os: "linux", architecture: "s390x" };
          await assert.rejects(pull({ mirrors }, { platform }), {
            code: "IMAGE_NOT_FOUND",
            message: /it is not made for linux\/s390x but for linux\/(?!mips64)/,
          });
          assert.equal(registry.requests.filter((it) => it.includes("latest")).length, 1);
        },
      );
    }
  });

  it("goes through a proxy, except where none is wanted", async () => {
    await trial(
      () => false,
      async ({ pull, registry }) => {
        const asked: string[] = [];
        const proxy = http.createServer((request, response) => {
          asked.push(request.url ?? "");
          const forwarded = http.get(request.url ?? "", { headers: request.headers }, (answer) => {
            response.writeHead(answer.statusCode ?? 500, answer.headers);
            answer.pipe(response);
          });
          forwarded.on("error", () => response.writeHead(502).end());
        });
        proxy.listen(0, "127.0.0.1");
        await once(proxy, "listening");
        const { port } = proxy.address() as AddressInfo; // a TCP server's
        try {
          const variables = { HTTP_PROXY: `http://127.0.0.1:${port}` };
          await pull({}, { proxy: { ...variables, NO_PROXY: "127.0.0.1" } });
          assert.deepEqual(asked, []);
          await pull({}, { proxy: variables });
          assert.match(asked[0] ?? "", new RegExp(`^http://${registry.host}/v2/app/manifests/`));
        } finally {
          proxy.closeAllConnections();
          proxy.close();
        }
      },
    );
  });

  it("asks for credentials when the registry wants them, and only then", async () => {
    const expected = `Basic ${Buffer.from("ann:geheim").toString("base64")}`;
    let isGuarded = false;
    const handler: RequestHandler = (request, response) => {
      if (!isGuarded || request.headers.authorization === expected) return false;
      response.writeHead(401, { "www-authenticate": "Basic realm=x" }).end();
      return true;
    };
    await trial(handler, async ({ pull, registry }) => {
      const asked: string[] = [];
      const credentials = async (host: string) => {
        asked.push(host);
        return await Promise.resolve({ username: "ann", password: new Secret("geheim") });
      };
      await pull({ credentials });
      assert.deepEqual(asked, []);
      isGuarded = true;
      await pull({ credentials });
      assert.deepEqual(asked, [registry.host]);
    });
  });
});

describe("credentials", () => {
  it("that are an identity token are exchanged for one of the registry", async () => {
    const forms: string[] = [];
    const handler: RequestHandler = (request, response) => {
      if (request.headers.authorization === "Bearer short") return false;
      if (request.url === "/token") {
        assert.deepEqual([request.method, request.headers.authorization], ["POST", undefined]);
        void text(request).then((form) => {
          forms.push(form);
          response.end(JSON.stringify({ access_token: "short", refresh_token: "next" }));
        });
        return true;
      }
      const realm = `http://${request.headers.host}/token`;
      const challenge = `Bearer realm="${realm}",service="s"`;
      response.writeHead(401, { "www-authenticate": challenge }).end();
      return true;
    };
    using work = temporaryFolder();
    const file = path.join(work.path, "config.json");
    await trial(handler, async ({ pull, registry }) => {
      const auth = Buffer.from("00000000-0000-0000-0000-000000000000:").toString("base64");
      const auths = { [registry.host]: { auth, identitytoken: "long & secret" } };
      writeFileSync(file, JSON.stringify({ auths }));
      await pull({ credentials: dockerConfigCredentials(file) });
    });
    assert.deepEqual(Object.fromEntries(new URLSearchParams(forms[0])), {
      grant_type: "refresh_token",
      client_id: "kip",
      service: "s",
      scope: "repository:app:pull",
      refresh_token: "long & secret",
    });
  });

  it("of docker login: helper of the registry, entry, default store, nothing", async () => {
    using work = temporaryFolder();
    const bin = path.join(work.path, "bin");
    mkdirSync(bin);
    const helper = path.join(bin, "docker-credential-demo");
    const lines = [
      "#!/bin/sh",
      "read -r host",
      `[ "$host" = none.example ] && { echo "credentials not found"; exit 1; }`,
      `printf '{"ServerURL":"x","Username":"u-%s","Secret":"s"}' "$host"`,
    ];
    writeFileSync(helper, lines.join("\n"));
    chmodSync(helper, 0o755);
    const file = path.join(work.path, "config.json");
    const auth = Buffer.from("bob:a:b").toString("base64");
    const config = {
      auths: {
        "plain.example": { auth },
        "https://old.example/v1/": { username: "old", password: "p" },
        "https://index.docker.io/v1/": { auth },
        "stored.example": {},
      },
      credHelpers: {
        "helped.example": "demo",
        "bad.example": "../../bin/sh",
        "absent.example": "not-there",
      },
      credsStore: "demo",
    };
    writeFileSync(file, JSON.stringify(config));
    const search = { path: `${bin}:${process.env["PATH"]}` };
    const source = dockerConfigCredentials(file, search);
    const found = async (host: string): Promise<string | undefined> => {
      const { username, password } = (await source(host)) ?? {};
      return username && `${username}/${password instanceof Secret ? password.reveal() : password}`;
    };
    assert.equal(await found("plain.example"), "bob/a:b");
    assert.equal(await found("old.example"), "old/p");
    assert.equal(await found("docker.io"), "bob/a:b");
    assert.equal(await found("helped.example"), "u-helped.example/s");
    assert.equal(await found("stored.example"), "u-stored.example/s");
    assert.equal(await found("none.example"), undefined);
    await assert.rejects(found("bad.example"), { code: "REGISTRY_UNAUTHORIZED" });
    await assert.rejects(found("absent.example"), /not-there/);
    const missing = dockerConfigCredentials(path.join(work.path, "none.json"), search);
    assert.equal(await missing("x"), undefined);
    writeFileSync(file, '{"auths": geheim');
    await assert.rejects(source("x"), (error) => !String(error).includes("geheim"));
  });
});
