import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { runCommand, silentLogger, systemClock } from "@kip/base";
import { tar, temporaryFolder, writeLayout } from "@kip/testing";
import { ImageError, type ImageErrorCode } from "../src/errors.ts";
import {
  openImageStore,
  parseReference,
  pushLayout,
  type ImageStore,
  type PullProgress,
  type RegistryConfig,
} from "../src/index.ts";
import { makeCertificate, startRegistry, startTokenServer } from "./fixtures/registry-process.ts";
import { missing } from "./fixtures/missing.ts";

const layers = [
  tar([
    { name: "etc/", type: "5" },
    { name: "etc/motd", content: "hello" },
    { name: "big", content: Buffer.alloc(3_000_000, "0123456789abcdef") },
  ]),
  tar([{ name: "etc/.wh.motd" }, { name: "etc/issue", content: "second" }]),
  tar([{ name: "third", content: Buffer.alloc(400_000, "x") }]),
  tar([{ name: "fourth", content: "4" }]),
  tar([{ name: "fifth", content: "5" }]),
];
const config = {
  Entrypoint: ["/bin/app"],
  Cmd: ["--serve"],
  Env: ["PATH=/bin", "A=b"],
  WorkingDir: "srv/../app/",
  User: "app:wheel",
  StopSignal: "SIGQUIT",
  Volumes: { "/data": {}, "../../../etc": {} },
  ExposedPorts: { "80/tcp": {} },
  Labels: { "org.example": "yes" },
};
const plain = missing({ programs: ["docker-registry"] });
const guarded = missing({ programs: ["docker-registry", "htpasswd", "openssl"] });

describe("an image store with Debian's docker-registry", () => {
  it("pulls what was pushed, by tag and by digest", { skip: plain }, async () => {
    await using registry = await startPlain();
    const { store, host, registries } = registry;
    writeLayout(registry.layout, { layers, config });
    const { digest } = await push(registry, "team/app:1");
    const byTag = parseReference(`${host}/team/app:1`);
    const progress: PullProgress[] = [];
    const onProgress = (it: PullProgress): void => void progress.push(it);
    const image = await store.pull(byTag, { registries, onProgress });
    assert.equal(image.repoDigest, `${host}/team/app@${digest}`);
    assert.deepEqual(image.config, {
      entrypoint: ["/bin/app"],
      cmd: ["--serve"],
      env: ["PATH=/bin", "A=b"],
      workingDir: "/app",
      user: "app:wheel",
      stopSignal: "SIGQUIT",
      volumes: ["/data", "/etc"],
      exposedPorts: ["80/tcp"],
      labels: { "org.example": "yes" },
    });
    const [tree = ""] = image.layers;
    assert.deepEqual(readdirSync(tree), ["big", "etc", "fifth", "fourth", "third"]);
    assert.deepEqual(readdirSync(path.join(tree, "etc")), ["issue"]);
    assert.equal(readFileSync(path.join(tree, "big")).length, 3_000_000);
    const last = progress.at(-1);
    assert.equal(last?.layersDone, 5);
    assert.equal(last.downloadedBytes, last.totalBytes);

    const byDigest = parseReference(`${host}/team/app@${digest}`);
    assert.deepEqual((await store.pull(byDigest, { registries })).layers, image.layers);
    assert.equal((await store.find(byTag))?.id, image.id);
    assert.equal((await store.find(byDigest))?.repoDigest, image.repoDigest);
    assert.equal(await store.find(parseReference(`${host}/team/app:2`)), undefined);
    assert.deepEqual(readdirSync(path.join(registry.root, "tmp")), []);
  });

  it(
    "pushes images that skopeo reads, and pulls images that skopeo pushed",
    {
      skip: missing({ programs: ["docker-registry", "skopeo"] }),
    },
    async () => {
      await using registry = await startPlain();
      const { store, host, registries } = registry;
      writeLayout(registry.layout, { layers, config });
      const { digest } = await push(registry, "app:ours");
      const insecure = ["--src-tls-verify=false", "--dest-tls-verify=false"];
      const { stdout } = await runCommand("skopeo", [
        "inspect",
        "--tls-verify=false",
        `docker://${host}/app:ours`,
      ]);
      assert.equal((JSON.parse(stdout) as { Digest: string }).Digest, digest);
      const target = `docker://${host}/app:skopeo`;
      const docker = ["--format", "v2s2"];
      await runCommand("skopeo", [
        "copy",
        ...insecure,
        ...docker,
        `docker://${host}/app:ours`,
        target,
      ]);
      const ours = await store.pull(parseReference(`${host}/app:ours`), { registries });
      const theirs = await store.pull(parseReference(`${host}/app:skopeo`), { registries });
      assert.notEqual(theirs.repoDigest, ours.repoDigest);
      assert.deepEqual(theirs.layers, ours.layers);
      assert.deepEqual(theirs.config, ours.config);
    },
  );

  it(
    "chooses the platform from an index, and reports the index's digest",
    { skip: plain },
    async () => {
      await using registry = await startPlain();
      const { store, host, registries } = registry;
      const root = writeLayout(registry.layout, { layers, isIndexed: true, compression: "zstd" });
      const { digest } = await push(registry, "app:multi");
      assert.equal(digest, root.digest);
      const reference = parseReference(`${host}/app:multi`);
      assert.equal(
        (await store.pull(reference, { registries })).repoDigest,
        `${host}/app@${digest}`,
      );
      await assert.rejects(
        store.pull(reference, { registries, platform: { os: "linux", architecture: "s390x" } }),
        matches("IMAGE_NOT_FOUND", /not made for linux\/s390x but for linux\//),
      );
    },
  );

  it("shares the work of two pulls at once", { skip: plain }, async () => {
    await using registry = await startPlain();
    const { store, host, registries } = registry;
    writeLayout(registry.layout, { layers });
    await push(registry, "app:1");
    await push(registry, "app:2");
    const pulls = [1, 2, 1].map((tag) =>
      store.pull(parseReference(`${host}/app:${tag}`), { registries }),
    );
    const trees = new Set((await Promise.all(pulls)).flatMap((image) => image.layers));
    assert.equal(trees.size, 1);
    assert.deepEqual(readdirSync(path.join(registry.root, "trees")).length, 1);
  });

  it("says what is missing, and what does not answer", { skip: plain }, async () => {
    await using registry = await startPlain();
    const { store, host, registries } = registry;
    const pull = async (name: string, configs = registries): Promise<unknown> =>
      await store.pull(parseReference(name), { registries: configs });
    await assert.rejects(
      pull(`${host}/nothing:1`),
      matches(
        "IMAGE_NOT_FOUND",
        /^Cannot pull image "127.*nothing:1": registry .* has no "nothing:1"/,
      ),
    );
    // Its URL did not state plain HTTP.
    await assert.rejects(
      pull(`${host}/app:1`, []),
      matches("REGISTRY_UNREACHABLE", /cannot be reached/),
    );
    await registry.stop();
    await assert.rejects(
      pull(`${host}/app:1`),
      (error) =>
        matches("REGISTRY_UNREACHABLE", /ECONNREFUSED/)(error) &&
        error instanceof ImageError &&
        error.retryable,
    );
  });

  it("logs in with a password", { skip: guarded }, async () => {
    using work = temporaryFolder();
    const basic = { username: "ann", password: "geheim" };
    await using registry = await startRegistry(path.join(work.path, "registry"), { basic });
    await checkLogIn(work.path, registry.host, basic);
  });

  it("logs in with a token", { skip: guarded }, async () => {
    using work = temporaryFolder();
    const account = { username: "ann", password: "geheim" };
    const pair = await makeCertificate(work.path);
    await using tokens = await startTokenServer({ ...pair, ...account });
    await using registry = await startRegistry(path.join(work.path, "registry"), {
      tokens: { realm: tokens.realm, certificate: pair.certificate },
    });
    await checkLogIn(work.path, registry.host, account);
    assert.ok(tokens.requests.some(({ scope }) => scope === "repository:app:pull"));
  });

  it("speaks TLS, and only with registries that it may trust", { skip: guarded }, async () => {
    using work = temporaryFolder();
    const tls = await makeCertificate(work.path);
    await using registry = await startRegistry(path.join(work.path, "registry"), { tls });
    const trusted = [{ host: registry.host, ca: readFileSync(tls.certificate, "utf8") }];
    writeLayout(path.join(work.path, "layout"), { layers });
    const reference = parseReference(`${registry.host}/app`);
    await pushLayout(path.join(work.path, "layout"), reference, { registries: trusted });
    const store = await openStore(path.join(work.path, "store"));
    await assert.rejects(
      store.pull(reference, { registries: [] }),
      matches("REGISTRY_UNREACHABLE", /self-signed certificate/),
    );
    assert.equal((await store.pull(reference, { registries: trusted })).layers.length, 1);
  });
});

async function startPlain() {
  const work = temporaryFolder();
  const registry = await startRegistry(path.join(work.path, "registry"));
  const root = path.join(work.path, "store");
  const registries = [{ host: registry.host, endpoint: `http://${registry.host}` }];
  return {
    host: registry.host,
    registries,
    root,
    layout: path.join(work.path, "layout"),
    store: await openStore(root),
    stop: async () => await registry[Symbol.asyncDispose](),
    [Symbol.asyncDispose]: async () => {
      await registry[Symbol.asyncDispose]();
      work[Symbol.dispose]();
    },
  };
}

async function push(
  registry: Awaited<ReturnType<typeof startPlain>>,
  name: string,
): Promise<{ readonly digest: string }> {
  const reference = parseReference(`${registry.host}/${name}`);
  return await pushLayout(registry.layout, reference, { registries: registry.registries });
}

async function checkLogIn(
  work: string,
  host: string,
  account: { readonly username: string; readonly password: string },
): Promise<void> {
  const endpoint = `http://${host}`;
  const known: RegistryConfig = { host, endpoint, ...account };
  writeLayout(path.join(work, "layout"), { layers });
  const reference = parseReference(`${host}/app:1`);
  await pushLayout(path.join(work, "layout"), reference, { registries: [known] });
  const store = await openStore(path.join(work, "store"));
  const strangers = [
    { host, endpoint },
    { ...known, password: "falsch" },
  ];
  for (const stranger of strangers) {
    await assert.rejects(
      store.pull(reference, { registries: [stranger] }),
      matches("REGISTRY_UNAUTHORIZED", /^Cannot pull image/),
    );
  }
  assert.equal((await store.pull(reference, { registries: [known] })).layers.length, 1);
}

async function openStore(root: string): Promise<ImageStore> {
  return await openImageStore({ root, logger: silentLogger, clock: systemClock });
}

function matches(code: ImageErrorCode, text: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(ImageError.is(error, code), `${code} expected: ${String(error)}`);
    assert.match(String(error), new RegExp(text.source.replace(/^\^/, "^ImageError: ")));
    return true;
  };
}
