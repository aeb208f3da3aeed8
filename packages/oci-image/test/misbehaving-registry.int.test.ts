import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type { ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { silentLogger, systemClock, type Clock } from "@kip/base";
import {
  EagerClock,
  startLayoutRegistry,
  tar,
  temporaryFolder,
  writeLayout,
  type LayoutRegistry,
  type RequestHandler,
} from "@kip/testing";
import { ImageError, type ImageErrorCode } from "../src/errors.ts";
import { openImageStore, parseReference, type PulledImage } from "../src/index.ts";

const layers = [
  tar([{ name: "one", content: Buffer.alloc(300_000, "a") }]),
  tar([{ name: "two", content: "2" }]),
  tar([{ name: "three", content: "3" }]),
];

interface Trial {
  readonly layout: string;
  readonly registry: LayoutRegistry;
  readonly pull: (signal?: AbortSignal) => Promise<PulledImage>;
  readonly failure: (code: ImageErrorCode, text: RegExp) => Promise<ImageError>;
}

/** Pulls from a registry that misbehaves. Nothing may be left behind afterwards. */
async function trial(
  handler: RequestHandler,
  run: (trial: Trial) => Promise<void>,
  clock: Clock = systemClock,
): Promise<void> {
  using work = temporaryFolder();
  const layout = path.join(work.path, "layout");
  writeLayout(layout, { layers, compression: "none" });
  await using registry = await startLayoutRegistry(layout, handler);
  const root = path.join(work.path, "store");
  const store = await openImageStore({ root, logger: silentLogger, clock });
  const { host } = registry;
  const account = { username: "ann", password: "geheim" };
  const registries = [{ host, endpoint: `http://${host}`, ...account }];
  const pull = async (signal?: AbortSignal): Promise<PulledImage> =>
    await store.pull(parseReference(`${host}/app`), { registries, ...(signal && { signal }) });
  const failure = async (code: ImageErrorCode, text: RegExp): Promise<ImageError> => {
    const error: unknown = await pull().then(
      () => assert.fail("it was pulled"),
      (reason: unknown) => reason,
    );
    assert.ok(ImageError.is(error, code), String(error));
    assert.match(error.message, text);
    return error;
  };
  await run({ layout, registry, pull, failure });
  assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
}

/** Sends single bytes for as long as the client listens. */
const trickle = (response: ServerResponse): void => {
  const more = (): void =>
    void (response.destroyed || response.write("x", () => setImmediate(more)));
  more();
};

const isBlob = (url: string | undefined): boolean => url?.includes("/blobs/") ?? false;

describe("a registry that misbehaves", () => {
  it("that sends us elsewhere for blobs does not get our credentials sent there", async () => {
    await using elsewhere = await startLayoutRegistry("", (request, response) => {
      response.writeHead(307, {
        location: `http://${request.url?.split("/")[1]}${rest(request.url)}`,
      });
      response.end();
      return true;
    });
    const handler: RequestHandler = (request, response) => {
      if (request.headers.authorization === undefined && !request.url?.includes("/again/")) {
        response.writeHead(401, { "www-authenticate": 'Basic realm="x"' }).end();
        return true;
      }
      if (!isBlob(request.url) || request.url?.includes("/again/")) return false;
      const back = `/${request.headers.host}/again${request.url}`;
      response.writeHead(302, { location: `http://${elsewhere.host}${back}` }).end();
      return true;
    };
    await trial(handler, async ({ pull, registry }) => {
      await pull();
      assert.ok(elsewhere.requests.length >= 4);
      for (const request of elsewhere.requests) assert.match(request, / -$/);
      assert.match(registry.requests[1] ?? "", / Basic YW5uOmdlaGVpbQ==$/);
    });
  });

  it("that sends us in a circle is left", async () => {
    const handler: RequestHandler = (request, response) => {
      response.writeHead(302, { location: request.url ?? "" }).end();
      return true;
    };
    await trial(handler, async ({ failure, registry }) => {
      await failure("REGISTRY_UNREACHABLE", /sends us in a circle/);
      assert.equal(registry.requests.length, 6);
    });
  });

  it("that asks for a password again and again is sent it once", async () => {
    const handler: RequestHandler = (_request, response) => {
      response.writeHead(401, { "www-authenticate": "Basic realm=x" }).end();
      return true;
    };
    await trial(handler, async ({ failure, registry }) => {
      await failure("REGISTRY_UNAUTHORIZED", /refuses "app:latest"/);
      assert.equal(registry.requests.length, 2);
    });
  });

  it("that limits us says for how long", async () => {
    const body = JSON.stringify({ errors: [{ code: "TOOMANYREQUESTS", message: "slow\ndown" }] });
    const handler: RequestHandler = (_request, response) => {
      response.writeHead(429, { "retry-after": "17" }).end(body);
      return true;
    };
    await trial(handler, async ({ failure }) => {
      const error = await failure("REGISTRY_RATE_LIMITED", /limits its use \("slow down"\)/);
      assert.equal(error.retryable, true);
      assert.equal(error.retryAfterMs, 17_000);
    });
  });

  it("that fails is left to the caller to try again", async () => {
    const handler: RequestHandler = (_request, response) => {
      response.writeHead(503).end();
      return true;
    };
    await trial(handler, async ({ failure }) => {
      assert.equal((await failure("REGISTRY_UNREACHABLE", /answered 503/)).retryable, true);
    });
  });

  for (const what of ["/manifests/", "/blobs/"]) {
    it(`that cuts its answer for ${what} in the middle leaves nothing behind`, async () => {
      const handler: RequestHandler = (request, response) => {
        if (!request.url?.includes(what)) return false;
        response.writeHead(200, { "content-length": "310000" });
        response.write(Buffer.alloc(100), () => response.destroy());
        return true;
      };
      await trial(handler, async ({ failure }) => {
        assert.equal((await failure("REGISTRY_UNREACHABLE", /cannot be reached/)).retryable, true);
      });
    });
  }

  it("that alters a layer, its length or a manifest is not believed", async () => {
    const cases: readonly [(url: string) => boolean, Buffer, RegExp][] = [
      [(url) => url.includes("/manifests/"), Buffer.from("{}"), /manifest/],
      [isBlob, Buffer.from("short"), /bytes/],
      [isBlob, Buffer.alloc(400_000), /bytes/],
    ];
    for (const [isAltered, body, text] of cases) {
      const handler: RequestHandler = (request, response) => {
        if (!isAltered(request.url ?? "")) return false;
        response.setHeader("docker-content-digest", `sha256:${"0".repeat(64)}`);
        response.end(body);
        return true;
      };
      await trial(handler, async ({ failure }) => {
        await failure("IMAGE_DIGEST_MISMATCH", text);
      });
    }
  });

  it("that answers without end is cut off", async () => {
    const handler: RequestHandler = (_request, response) => {
      const more = (): void =>
        void (response.destroyed || response.write(Buffer.alloc(65536), more));
      more();
      return true;
    };
    await trial(handler, async ({ failure }) => {
      await failure("IMAGE_INVALID", /an answer of its registry is over 4194304 bytes/);
    });
  });

  for (const what of ["/manifests/", "/blobs/"]) {
    it(`that trickles for ${what} is given up`, async () => {
      const handler: RequestHandler = (request, response) => {
        if (!request.url?.includes(what)) return false;
        trickle(response);
        return true;
      };
      await trial(
        handler,
        async ({ failure }) => {
          const text = /registry 127\.\S+ sent \d+ bytes in \d+ s$/;
          const error = await failure("REGISTRY_TOO_SLOW", text);
          const { bytes, seconds } = error.facts;
          assert.ok(Number(seconds) >= 60 && Number(bytes) < 1024 * Number(seconds));
        },
        new EagerClock({ lookMs: 500 }),
      );
    });
  }

  it("whose token service trickles is given up", async () => {
    const handler: RequestHandler = (request, response) => {
      if (request.url?.startsWith("/token") === true) trickle(response);
      else {
        const challenge = `Bearer realm="http://${request.headers.host}/token",service="x"`;
        response.writeHead(401, { "www-authenticate": challenge }).end();
      }
      return true;
    };
    await trial(
      handler,
      async ({ failure }) => void (await failure("REGISTRY_TOO_SLOW", /bytes in/)),
      new EagerClock({ lookMs: 500 }),
    );
  });

  it("that is slow is waited for while it is not too slow, and while we are slow ourselves", async () => {
    await trial(
      () => false,
      async ({ pull }) => void (await pull()),
      new EagerClock({ lookMs: 500 }),
    );
  });

  it("that gives another digest for a tag than the manifest it then sends is not believed", async () => {
    // The response to a HEAD does not matter. The digest in the response with the content counts.
    const handler: RequestHandler = (request, response) => {
      const digest = `sha256:${(request.method === "HEAD" ? "1" : "2").repeat(64)}`;
      if (request.url?.includes("/manifests/") === true)
        response.setHeader("docker-content-digest", digest);
      return false;
    };
    await trial(handler, async ({ failure, registry }) => {
      await failure("IMAGE_DIGEST_MISMATCH", /its manifest should be sha256:2+ but is sha256:/);
      assert.ok(registry.requests.every((request) => request.startsWith("GET ")));
    });
  });

  it("whose tag moves during a pull gives the image of the first answer", async () => {
    let layout = "";
    let asked = 0;
    const handler: RequestHandler = (request) => {
      if (request.url?.endsWith("/manifests/latest") === true) asked++;
      else if (asked === 1 && layout !== "") {
        // The registry still has the earlier blobs.
        writeLayout(layout, { layers: [tar([{ name: "moved" }])], compression: "none" });
        layout = "";
      }
      return false;
    };
    await trial(handler, async (it) => {
      layout = it.layout;
      const image = await it.pull();
      assert.deepEqual(readdirSync(image.layers[0] ?? "").sort(), ["one", "three", "two"]);
      assert.equal(asked, 1);
    });
  });

  for (const [what, change, code] of [
    ["more", 10, "REGISTRY_UNREACHABLE"],
    ["less", -10, "IMAGE_DIGEST_MISMATCH"],
  ] as const) {
    it(`that announces ${what} bytes than there are is not believed`, async () => {
      let layout = "";
      const handler: RequestHandler = (request, response) => {
        const hex = /blobs\/sha256:([0-9a-f]{64})$/.exec(request.url ?? "")?.[1];
        if (hex === undefined) return false;
        const bytes = readFileSync(path.join(layout, "blobs/sha256", hex));
        response.writeHead(200, { "content-length": bytes.length + change });
        response.write(change < 0 ? bytes.subarray(0, change) : bytes, () => response.destroy());
        return true;
      };
      await trial(
        handler,
        async (it) => {
          ({ layout } = it);
          await it.failure(code, /blob|bytes|cannot be reached/);
        },
        new EagerClock({ lookMs: 500 }),
      );
    });
  }

  it("that refuses every token it gives is asked for one only", async () => {
    let tokens = 0;
    const handler: RequestHandler = (request, response) => {
      if (request.url?.startsWith("/token") === true) {
        response.end(JSON.stringify({ token: `t${++tokens}` }));
        return true;
      }
      const challenge = `Bearer realm="http://${request.headers.host}/token",service="x"`;
      response.writeHead(401, { "www-authenticate": challenge }).end();
      return true;
    };
    await trial(handler, async ({ failure, registry }) => {
      await failure("REGISTRY_UNAUTHORIZED", /refuses "app:latest"/);
      assert.deepEqual([tokens, registry.requests.length], [1, 3]);
    });
  });

  it("whose token service wants a log-in itself is not asked again", async () => {
    const handler: RequestHandler = (request, response) => {
      const challenge = `Bearer realm="http://${request.headers.host}/token",service="x"`;
      response.writeHead(401, { "www-authenticate": challenge }).end();
      return true;
    };
    await trial(handler, async ({ failure, registry }) => {
      await failure("REGISTRY_UNAUTHORIZED", /refuses a token/);
      assert.equal(registry.requests.length, 2);
    });
  });

  it("that limits us until a date is understood by its own clock", async () => {
    const handler: RequestHandler = (_request, response) => {
      response.writeHead(429, {
        date: "Wed, 21 Oct 2015 07:28:00 GMT",
        "retry-after": "Wed, 21 Oct 2015 07:30:00 GMT",
      });
      response.end();
      return true;
    };
    await trial(handler, async ({ failure }) => {
      const error = await failure("REGISTRY_RATE_LIMITED", /limits its use/);
      assert.equal(error.retryAfterMs, 120_000);
    });
  });

  it("that is silent is left as soon as the caller gives up", async () => {
    const stop = new AbortController();
    const handler: RequestHandler = (request) => {
      if (!isBlob(request.url)) return false;
      stop.abort(new Error("the pod is gone"));
      return true;
    };
    await trial(handler, async ({ pull }) => {
      await assert.rejects(pull(stop.signal), { message: "the pod is gone" });
    });
  });
});

/** The rest of a path after its first part. */
function rest(url: string | undefined): string {
  return `/${url?.split("/").slice(2).join("/")}`;
}
