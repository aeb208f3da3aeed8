import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import path from "node:path";
import { suite, test } from "node:test";
import { portOf } from "@kip/base";
import { temporaryFolder, type TemporaryFolder } from "@kip/testing";
import { runCloudInit } from "./cloud-init-command.ts";

/** Runs the command with a folder as the machine's root folder. */
async function run(root: TemporaryFolder, ...args: readonly string[]) {
  let [out, err] = ["", ""];
  const code = await runCloudInit(args, {
    version: "1.2.3",
    out: (text) => void (out += text),
    err: (text) => void (err += text),
    root: root.path,
  });
  return { code, out, err };
}

const config = "#cloud-config\nwrite_files:\n  - {path: /etc/a, content: $private_ipv4}\n";

suite("runCloudInit()", () => {
  test("applies a file with user data, each time", async () => {
    using root = temporaryFolder();
    const file = path.join(root.path, "user-data");
    await writeFile(file, config);
    for (const _ of [1, 2]) {
      const { code, out } = await run(root, "--from-file", file);
      assert.deepEqual(
        { code, out },
        { code: 0, out: `Applied the user data from ${file}, with 0 failures\n` },
      );
      const target = path.join(root.path, "etc/a");
      assert.equal(await readFile(target, "utf8"), "$private_ipv4");
      await writeFile(target, "changed");
    }
  });

  test("applies what a metadata service has, once for each instance", async () => {
    using root = temporaryFolder();
    let instance = "i-1";
    const server = createServer(({ url }, response) => {
      const body = {
        "/latest/meta-data/instance-id": instance,
        "/latest/meta-data/local-ipv4": "10.0.0.5",
        "/latest/user-data": config,
      }[url ?? ""];
      response.writeHead(body === undefined ? 404 : 200).end(body);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    try {
      const source = `--from-ec2-metadata=http://127.0.0.1:${portOf(server)}`;
      const agent = `--from-waagent=${root.path}/waagent`;
      const target = path.join(root.path, "etc/a");
      assert.equal((await run(root, agent, source, "--workspace=/ws")).code, 0);
      assert.equal(await readFile(target, "utf8"), "10.0.0.5");
      assert.equal(await readFile(path.join(root.path, "ws/instance-id"), "utf8"), "i-1\n");
      assert.match(await readFile(path.join(root.path, "etc/environment"), "utf8"), /10\.0\.0\.5/);
      await writeFile(target, "changed");
      const again = await run(root, source, "--workspace=/ws");
      assert.match(again.out, /"i-1" was applied before/);
      assert.equal(await readFile(target, "utf8"), "changed");
      instance = "i-2";
      assert.equal((await run(root, source, "--workspace=/ws")).code, 0);
      assert.equal(await readFile(target, "utf8"), "10.0.0.5");
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  test("says what failed, and ends with 1 unless failures are to be ignored", async () => {
    using root = temporaryFolder();
    const file = path.join(root.path, "user-data");
    await mkdir(path.join(root.path, "etc/a"), { recursive: true });
    await writeFile(file, config);
    const failed = await run(root, `--from-file=${file}`);
    assert.equal(failed.code, 1);
    assert.match(failed.err, /Cannot write file "\/etc\/a"/);
    assert.equal((await run(root, `--from-file=${file}`, "--ignore-failure")).code, 0);
  });

  test("validates without applying", async () => {
    using root = temporaryFolder();
    const file = path.join(root.path, "user-data");
    await writeFile(file, `${config}other: 1\n`);
    const good = await run(root, `--from-file=${file}`, "--validate");
    assert.equal(good.code, 0);
    assert.match(good.err, /warning: line 4, column 1: Skipped "other"/);
    assert.equal(existsSync(path.join(root.path, "etc")), false);
    await writeFile(file, "#cloud-config\nhostname: [a]\n");
    const bad = await run(root, `--from-file=${file}`, "--validate");
    assert.equal(bad.code, 1);
    assert.match(bad.err, /line 2, column 1: "hostname" is not a text/);
  });

  test("takes the original's flags, and names what is wrong with others", async () => {
    using root = temporaryFolder();
    assert.deepEqual(await run(root, "--version"), { code: 0, out: "itzo 1.2.3\n", err: "" });
    const none = await run(root, "--ssh-key-name=mine");
    assert.equal(none.code, 1);
    assert.match(none.err, /--ssh-key-name is deprecated[^]*no source is named/);
    assert.match((await run(root, "--from-fil=x")).err, /Did you mean --from-file\?/);
    assert.match((await run(root, "--from-file=/no/such/file")).err, /ENOENT/);
    assert.match((await run(root, "--from-url=ftp://x/")).err, /not an http or https address/);
  });
});
