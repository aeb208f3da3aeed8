// kip image build on the command line: the real image, with moto behind the proxy.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import os from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, it } from "node:test";
import { Ec2Proxy, startMoto, whyNoMoto } from "@kip/cloud-aws/emulator";
import { eventually, temporaryFolder } from "@kip/testing";

const kip = path.join(import.meta.dirname, "../bin/kip");
const isRoot = process.getuid?.() === 0;
const skip = isRoot ? ((await whyNoMoto()) ?? false) : "images are built by root only";
const motoCache = path.join(
  process.env["XDG_CACHE_HOME"] ?? path.join(os.homedir(), ".cache"),
  "kip",
);

it(
  "kip image build: an interrupted one leaves nothing, a whole one an image, the next one the same",
  { skip, timeout: 280_000 },
  async () => {
    await using moto = await startMoto({ cacheDir: motoCache });
    await using proxy = new Ec2Proxy(moto.url);
    const AWS_ENDPOINT_URL = await proxy.start();
    const home = temporaryFolder();
    after(() => home[Symbol.dispose]());
    const environment = {
      ...process.env,
      AWS_ENDPOINT_URL,
      AWS_REGION: "eu-west-1",
      AWS_ACCESS_KEY_ID: "test",
      AWS_SECRET_ACCESS_KEY: "test",
      HOME: home.path,
    };
    const run = async (until?: () => boolean) => {
      const args = ["image", "build", "--cloud=aws", "--region=us-east-1"];
      const child = spawn(kip, args, { env: environment, stdio: ["ignore", "pipe", "pipe"] });
      const exit = new Promise<number | null>((resolve) => child.once("close", resolve));
      const output = Promise.all([text(child.stdout), text(child.stderr)]);
      if (until) await eventually(until, { limitMs: 120_000 }).then(() => child.kill("SIGINT"));
      const [printed, said] = await output;
      return { code: await exit, printed, said };
    };
    const stopped = await run(() => proxy.actions.includes("ebs:PutSnapshotBlock"));
    assert.equal(stopped.code, 1, stopped.said);
    assert.match(stopped.said, /kip: SIGINT received/);
    assert.ok(!proxy.actions.includes("ebs:CompleteSnapshot"));
    assert.ok(proxy.actions.includes("DeleteSnapshot"));
    const first = await run();
    assert.equal(first.code, 0, first.said);
    assert.match(first.printed, /^ami-\w+\n$/);
    assert.match(first.said, /\(kip-cell-[\da-f]{16}-[\da-f]{8}-x86_64\) was made in us-east-1\./);
    assert.doesNotMatch(first.said, /money/, "nothing of the stopped build is left");
    const second = await run();
    assert.equal(second.printed, first.printed);
    assert.match(second.said, /already/);
  },
);
