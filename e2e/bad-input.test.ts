import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, describe, it } from "node:test";
import { kipCommand, run } from "./cluster.ts";

const kip = path.join(import.meta.dirname, "../apps/kip/bin/kip");
const folder = mkdtempSync(path.join(tmpdir(), "kip-bad-"));
const apart = [
  `--state-dir=${folder}/state`,
  `--kubeconfig=${folder}/kubeconfig`,
  "--namespace-name=kip-bad",
];

describe("bad input gets a sentence and a remedy", () => {
  after(() => rmSync(folder, { recursive: true, force: true }));

  it("an unknown command", async () => {
    const result = await kipCommand("upp");
    assert.equal(result.status, 1);
    assert.match(result.stderr, /there is no such command\n.*Did you mean kip up\?/);
  });

  it("an unknown flag", async () => {
    const result = await kipCommand("up", "--state-dri=/tmp/x");
    assert.equal(result.status, 1);
    assert.match(
      result.stderr,
      /"--state-dri=\/tmp\/x": there is no such flag\n.*Did you mean --state-dir\?/,
    );
  });

  it("an unknown configuration key", async () => {
    const file = path.join(folder, "provider.yaml");
    writeFileSync(file, "cloud:\n  local: {}\ncells:\n  defaultVolumeSze: 5Gi\n");
    const result = await kipCommand(`--provider-config=${file}`, "--node-ip=127.0.0.1");
    assert.equal(result.status, 1);
    assert.match(
      result.stderr,
      /line 4: cells\.defaultVolumeSze: there is no such key\n.*Did you mean cells\.defaultVolumeSize\?/,
    );
  });

  it("not root", async () => {
    const result = await run("setpriv", [
      "--reuid=65534",
      "--regid=65534",
      "--clear-groups",
      kip,
      "up",
      ...apart,
    ]);
    // If other users may not read the checkout, this message comes before kip starts.
    if (/Permission denied/.test(result.stderr)) return;
    assert.equal(result.status, 1);
    assert.match(result.stderr, /belong to root\n.*sudo/);
  });

  it("a port that is taken", async () => {
    await using server = net.createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as net.AddressInfo;
    const result = await kipCommand(
      "up",
      ...apart,
      `--port=${port}`,
      "--network-range=198.18.252.0/22",
      "--service-range=10.114.0.0/16",
    );
    assert.equal(result.status, 1, result.stdout);
    assert.match(result.stderr, new RegExp(`${port}.*\\n.*--port`));
    await kipCommand("down", ...apart);
  });

  it("a port that is out of range", async () => {
    const result = await kipCommand("up", ...apart, "--port=99999");
    assert.equal(result.status, 1);
    assert.match(result.stderr, /--port 99999/);
  });

  it("no binaries, no download, no Go toolchain", async () => {
    // Only contains the Node that runs kip, and nothing that could build or download.
    const bin = path.dirname(process.execPath);
    const env = {
      PATH: `${bin}:/usr/sbin:/usr/bin:/sbin:/bin`,
      https_proxy: "http://127.0.0.1:9",
      HTTPS_PROXY: "http://127.0.0.1:9",
    };
    const result = await run(
      kip,
      ["up", ...apart, `--cache-dir=${folder}/cache`, "--network-range=198.18.252.0/22"],
      { env },
    );
    assert.equal(result.status, 1, result.stdout);
    assert.match(result.stderr, /Go/);
    await kipCommand("down", ...apart);
  });
});
