// kip prices refresh on the command line, and kip price with its file: types and spot prices from moto, and a Price List of
// this test.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { it } from "node:test";
import { PriceListServer, startMoto, whyNoMoto } from "@kip/cloud-aws/emulator";
import { temporaryFolder } from "@kip/testing";

const kip = path.join(import.meta.dirname, "../bin/kip");
const skip = (await whyNoMoto()) ?? false;
const motoCache = path.join(
  process.env["XDG_CACHE_HOME"] ?? path.join(os.homedir(), ".cache"),
  "kip",
);
const pod = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: web, resources: {requests: {cpu: "1", memory: 4Gi}}}]}
`;

it(
  "kip prices refresh: kip price takes the file, of a region that kip has no list of",
  { skip, timeout: 240_000 },
  async () => {
    await using moto = await startMoto({ cacheDir: motoCache });
    await using list = new PriceListServer("ap-east-2", [
      { instanceType: "m5.large", price: 0.11 },
      { instanceType: "m5.xlarge", price: 0.22 },
    ]);
    using folder = temporaryFolder();
    const env = {
      ...process.env,
      AWS_ENDPOINT_URL_EC2: moto.url,
      AWS_ENDPOINT_URL_PRICING: await list.start(),
      AWS_ACCESS_KEY_ID: "test",
      AWS_SECRET_ACCESS_KEY: "test",
      HOME: folder.path,
    };
    const run = async (...args: readonly string[]) => {
      const child = spawn(kip, args, { env, stdio: ["ignore", "pipe", "pipe"] });
      const exit = new Promise<number | null>((resolve) => child.once("close", resolve));
      const [printed, said] = await Promise.all([text(child.stdout), text(child.stderr)]);
      return { code: await exit, printed, said };
    };
    const file = path.join(folder.path, "prices.json");
    const manifest = path.join(folder.path, "pod.yaml");
    writeFileSync(file, '{"us-east-1": {"t3.nano": null}}');
    writeFileSync(manifest, pod);
    const refreshed = await run("prices", "refresh", file, "--region=ap-east-2");
    assert.equal(refreshed.code, 0, refreshed.said);
    assert.match(refreshed.printed, /^2 types of ap-east-2, \d+ with a spot price: /);
    assert.ok(readFileSync(file, "utf8").includes('"us-east-1": {"t3.nano":null}'));
    const from = `--instance-data-path=${file}`;
    const priced = await run("price", "-f", manifest, "--region=ap-east-2", from);
    assert.equal(priced.code, 0, priced.said);
    assert.match(priced.printed, /m5\.large/);
    assert.match(priced.printed, /0\.11/);
  },
);
