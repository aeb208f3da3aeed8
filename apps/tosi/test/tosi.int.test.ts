// The command as a user or another program runs it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { mount, runCommand, unmount } from "@kip/base";
import { startLayoutRegistry, tar, temporaryFolder, writeLayout } from "@kip/testing";
import { missing } from "../../../packages/oci-image/test/fixtures/missing.ts";
import { packTosi } from "../../../tools/pack-tosi.ts";

const main = fileURLToPath(new URL("../src/main.ts", import.meta.url));
const layers = [
  tar([
    { name: "etc/", type: "5", mode: 0o750 },
    { name: "etc/motd", content: "hello", mode: 0o4755, mtime: 1_500_000_000 },
    { name: "etc/same", type: "1", linkName: "etc/motd" },
    { name: "gone", content: "x" },
  ]),
  tar([{ name: ".wh.gone" }]),
];

interface Run {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

interface Setting {
  readonly host: string;
  readonly folder: string;
  readonly requests: readonly string[];
  readonly tosi: (...args: readonly string[]) => Promise<Run>;
}

async function setting(run: (setting: Setting) => Promise<void>): Promise<void> {
  using work = temporaryFolder();
  const layout = path.join(work.path, "layout");
  writeLayout(layout, { layers, config: { Cmd: ["/bin/sh"], Env: ["A=b"], StopSignal: "SIGINT" } });
  await using registry = await startLayoutRegistry(layout, (request, response) => {
    if (!/\/manifests\/(?:none|secret)$/.test(request.url ?? "")) return false;
    response.writeHead(request.url?.endsWith("none") ? 404 : 403).end();
    return true;
  });
  const { host, requests } = registry;
  const tosi = async (...args: readonly string[]): Promise<Run> => {
    const common = ["-workdir", path.join(work.path, "store"), "-insecure", host];
    const child = spawn(process.execPath, [main, ...common, ...args], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env["PATH"], HOME: work.path },
    });
    const [out, err, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, "exit") as Promise<[number | null]>, // documented by Node
    ]);
    return { code, out, err };
  };
  await run({ host, requests, folder: work.path, tosi });
}

describe("tosi", () => {
  it("does what the original's flags ask for", async () => {
    await setting(async ({ host, folder, tosi }) => {
      const target = path.join(folder, "extracted");
      const config = path.join(folder, "config.json");
      const image = `${host}/app:1`;
      const flags = ["-image", image, "-extractto", target, "-saveconfig", config];
      assert.deepEqual(await tosi(...flags), { code: 0, out: "", err: "" });
      assert.deepEqual(readdirSync(target), ["etc"]);
      const facts = statSync(path.join(target, "etc/motd"));
      assert.deepEqual([facts.nlink, facts.mtimeMs], [2, 1_500_000_000_000]);
      const saved = JSON.parse(readFileSync(config, "utf8")) as Record<string, unknown>;
      assert.deepEqual([saved["Cmd"], saved["StopSignal"]], [["/bin/sh"], "SIGINT"]);
      // As in the original, the target must be empty.
      const again = await tosi(...flags);
      assert.equal(again.code, 2);
      assert.match(again.err, /not an empty folder/);
      const both = await tosi("-image", image, "-extractto", "/x", "-mount", "/y");
      assert.equal(both.code, 2);
      const byUrl = await tosi("-url", `http://${host}`, "-image", "some/app", "-validate-cache");
      assert.equal(byUrl.code, 0, byUrl.err);
    });
  });

  it(
    "mounts an image to write in",
    { skip: missing({ root: true, programs: ["mount", "umount"] }) },
    async () => {
      await setting(async ({ host, folder, tosi }) => {
        const target = path.join(folder, "mounted");
        const run = await tosi("-image", `${host}/app`, "-mount", target);
        assert.equal(run.code, 0, run.err);
        try {
          writeFileSync(path.join(target, "etc/new"), "");
          assert.deepEqual(readdirSync(path.join(`${target}.upper`, "etc")), ["new"]);
        } finally {
          await unmount([target]);
        }
        // Files in the folder beside the target become part of the root file system, so it must be ours.
        rmSync(`${target}.upper`, { recursive: true });
        symlinkSync(folder, `${target}.upper`);
        const planted = await tosi("-image", `${host}/app`, "-mount", target);
        assert.equal(planted.code, 2, planted.err);
        const taken = path.join(folder, "taken");
        mkdirSync(taken);
        await mount(["-t", "tmpfs", "none", taken]);
        try {
          assert.equal((await tosi("-image", `${host}/app`, "-mount", taken)).code, 2);
        } finally {
          await unmount([taken]);
        }
      });
    },
  );

  it("pulls, inspects, verifies, prefetches and collects", async () => {
    await setting(async ({ host, folder, requests, tosi }) => {
      const image = `${host}/app`;
      const pulled = await tosi("pull", image);
      assert.match(pulled.out, /^127\.0\.0\.1:\d+\/app@sha256:[0-9a-f]{64}\n$/);
      const facts = JSON.parse((await tosi("inspect", image)).out) as Record<string, unknown>;
      assert.equal(facts["image"], `${image}:latest`);
      assert.match((await tosi("verify", image)).out, /as it must be/);
      const [tree = ""] = facts["layers"] as string[]; // printed by tosi above
      writeFileSync(path.join(tree, "etc/motd"), "hullo");
      assert.match((await tosi("verify", image)).out, /\/etc\/motd differed; mended/);
      const list = path.join(folder, "list");
      writeFileSync(list, `# images\n${image}\n\n`);
      const cache = path.join(folder, "cache");
      mkdirSync(cache);
      assert.match((await tosi("prefetch", "-cache", cache, "-list", list)).out, /\d\d+ bytes new/);
      const collected = await tosi("gc", "-max-size", "0", "-unused-for", "1h");
      assert.match(collected.out, /^0 images removed/);
      const before = requests.length;
      const other = path.join(folder, "other");
      assert.equal((await tosi("pull", image, "-cache", cache, "-workdir", other)).code, 0);
      assert.equal(requests.length - before, 1);
    });
  });

  it("prefetches what it can of a list, and tells what it could not", async () => {
    await setting(async ({ host, folder, tosi }) => {
      const cache = path.join(folder, "cache");
      const list = path.join(folder, "list");
      const names = [`${host}/app:secret`, "UPPER", `${host}/app:none`, `${host}/app`];
      writeFileSync(list, names.join("\n"));
      const run = await tosi("prefetch", "-cache", cache, "-list", list, "-private");
      assert.match(run.out, /^127\.0\.0\.1:\d+\/app: \d+ bytes new\n$/);
      for (const name of names.slice(0, 3)) assert.ok(run.err.includes(name), run.err);
      assert.match(run.err, /Cannot prefetch 3 of 4 images/);
      assert.equal(run.code, 4);
    });
  });

  it("speaks JSON lines to programs", async () => {
    await setting(async ({ host, tosi }) => {
      const { out } = await tosi("pull", `${host}/app`, "-json");
      const lines = out.trimEnd().split("\n");
      const events = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
      assert.equal(events[0]?.["event"], "progress");
      const last = events.at(-2);
      assert.deepEqual(
        [last?.["layersDone"], last?.["downloadedBytes"]],
        [2, last?.["totalBytes"]],
      );
      assert.equal(events.at(-1)?.["event"], "done");
      const failed = await tosi("pull", `${host}/app:none`, "-json");
      const told = JSON.parse(failed.out) as Record<string, unknown>;
      assert.deepEqual([told["event"], told["code"]], ["failed", "IMAGE_NOT_FOUND"]);
    });
  });

  it("has exit codes that say what to do", async () => {
    await setting(async ({ host, folder, tosi }) => {
      const codeOf = async (...args: readonly string[]) => (await tosi(...args)).code;
      assert.equal(await codeOf("-no-such-flag"), 2);
      assert.equal(await codeOf("pull", "UPPER"), 2);
      assert.equal(await codeOf("pull", `${host}/app:none`), 3);
      assert.equal(await codeOf("inspect", `${host}/app`), 3);
      assert.equal(await codeOf("pull", `${host}/app:secret`), 4);
      assert.equal(await codeOf("pull", "127.0.0.1:1/app", "-insecure", "127.0.0.1:1"), 5);
      assert.equal(await codeOf("pull", `${host}/app`, "-ca", "/nowhere"), 2);
      assert.equal(await codeOf("prefetch", "-cache", folder, "-list", "/nowhere"), 2);
      // A store that other users may write to is refused.
      const open = path.join(folder, "open");
      mkdirSync(open);
      chmodSync(open, 0o777);
      assert.equal(await codeOf("pull", `${host}/app`, "-workdir", open), 2);
      // So is one that they may rename.
      assert.equal(await codeOf("pull", `${host}/app`, "-workdir", path.join(open, "a/b")), 2);
      chmodSync(open, 0o1777);
      assert.equal(await codeOf("pull", `${host}/app`, "-workdir", path.join(open, "a/b")), 0);
    });
  });

  it("ends as a shell expects when it is stopped, or its output is no longer read", async () => {
    using work = temporaryFolder();
    const layout = path.join(work.path, "layout");
    writeLayout(layout, { layers });
    const asked = Promise.withResolvers<void>();
    await using registry = await startLayoutRegistry(layout, (request) => {
      const isBlob = request.url?.includes("/blobs/") === true;
      if (isBlob) asked.resolve();
      return isBlob;
    });
    const store = path.join(work.path, "store");
    const image = `${registry.host}/app`;
    const flags = ["-workdir", store, "-insecure", registry.host, "pull", image];
    const stopped = spawn(process.execPath, [main, ...flags], { stdio: "ignore" });
    await asked.promise;
    stopped.kill("SIGTERM");
    assert.deepEqual(await once(stopped, "exit"), [143, null]);
    assert.deepEqual(readdirSync(path.join(store, "tmp")), []);
    const unread = spawn(process.execPath, [main, "-help"], { stdio: ["ignore", "pipe", "pipe"] });
    unread.stdout.destroy();
    const errors = text(unread.stderr);
    assert.deepEqual(await once(unread, "exit"), [141, null]);
    assert.equal(await errors, "");
  });

  it("is the same packed into one file", async () => {
    await setting(async ({ host, folder, tosi }) => {
      const program = path.join(folder, "tosi");
      await packTosi(program, process.execPath);
      const store = ["-workdir", path.join(folder, "other"), "-insecure", host];
      const packed = async (...args: readonly string[]): Promise<string> =>
        (await runCommand(program, [...store, ...args])).stdout;
      const image = `${host}/app:1`;
      assert.equal(await packed("pull", image), (await tosi("pull", image)).out);
      assert.equal(await packed("pull", image), (await tosi("pull", image)).out);
      await packed("unpack", image, path.join(folder, "unpacked"));
      assert.equal(readFileSync(path.join(folder, "unpacked/etc/motd"), "utf8"), "hello");
      assert.match(await packed("gc", "-max-size", "0"), /images removed/);
    });
  });
});
