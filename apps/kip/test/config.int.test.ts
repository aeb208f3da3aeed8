import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { AsyncQueue, createLogger } from "@kip/base";
import type { ProviderConfig } from "@kip/kip";
import { temporaryFolder } from "@kip/testing";
import { followConfig } from "../src/config/follow-config.ts";
import { ConfigFile } from "../src/config/config-file.ts";

const kip = path.join(import.meta.dirname, "../bin/kip");
const good = "cloud:\n  local: {}\ncells:\n  nametag: a\n";

describe("kip iam print", { timeout: 60_000 }, () => {
  it("is for the region of --region, else that of the file, and their partition", () => {
    using folder = temporaryFolder();
    const file = path.join(folder.path, "provider.yaml");
    const regionsOf = (region: string, ...flags: readonly string[]): readonly string[] => {
      writeFileSync(file, `cloud:\n  aws: {${region}}\n`);
      const { stdout } = spawnSync(kip, ["iam", "print", file, ...flags], { encoding: "utf8" });
      return [...new Set(stdout.match(/arn:[\w-]+:ec2:[^:]*/g))];
    };
    assert.deepEqual(regionsOf(""), ["arn:aws:ec2:*"]);
    assert.deepEqual(regionsOf("region: cn-north-1"), ["arn:aws-cn:ec2:cn-north-1"]);
    const other = ["--region", "us-gov-west-1"];
    assert.deepEqual(regionsOf("", ...other), ["arn:aws-us-gov:ec2:us-gov-west-1"]);
    assert.deepEqual(regionsOf("region: us-east-1", "--image-build", ...other), [
      "arn:aws-us-gov:ec2:us-gov-west-1",
    ]);
  });
});

describe("kip config check", { timeout: 60_000 }, () => {
  const check = (text: string, ...flags: readonly string[]) => {
    using folder = temporaryFolder();
    const file = path.join(folder.path, "provider.yaml");
    writeFileSync(file, text);
    const args = ["config", "check", file, ...flags];
    const { status, stdout } = spawnSync(kip, args, { encoding: "utf8" });
    return { status, stdout: stdout.replaceAll(folder.path, "") };
  };

  it("exits with 0 and warnings for a file that can be used", () => {
    const { status, stdout } = check(`${good}  statusInterval: 5\n`);
    assert.deepEqual(
      [status, stdout],
      [
        0,
        "/provider.yaml:5: warning: cells.statusInterval: it has no effect: agents report each change at once, and nothing is polled\n/provider.yaml can be used\n",
      ],
    );
  });

  it("names the mistakes of the cloud-config for cells by its own file and lines", () => {
    using folder = temporaryFolder();
    const file = path.join(folder.path, "provider.yaml");
    writeFileSync(file, `${good}  cloudInitFile: cells.yaml\n`);
    const cloudInit = path.join(folder.path, "cells.yaml");
    const run = (): readonly [number | null, string] => {
      const { status, stdout } = spawnSync(kip, ["config", "check", file], { encoding: "utf8" });
      return [status, stdout.replaceAll(folder.path, "")];
    };
    assert.deepEqual(run(), [
      1,
      '/provider.yaml:5: error: cells.cloudInitFile: the file "/cells.yaml" cannot be read\n/provider.yaml cannot be used: 1 to correct\n',
    ]);
    writeFileSync(cloudInit, "#cloud-config\nwrite_files:\n- path: /var/lib/itzo/identity.json\n");
    const [status, text] = run();
    assert.equal(status, 1);
    assert.match(
      text,
      /^\/cells\.yaml:3: error: "write_files\[0\]\.path" is .*cells need "\/var\/lib\/itzo"/,
    );
    writeFileSync(cloudInit, "#cloud-config\npackages: [vim]\n");
    assert.match(run().join(" "), /^0 \/cells\.yaml:2: warning: Skipped "packages"/);
  });

  it("exits with 1 and names every problem, as JSON too", () => {
    const { status, stdout } = check("cloud:\n  locl: {}\ncells:\n  nametg: a\n", "--output=json");
    assert.equal(status, 1);
    const found = JSON.parse(stdout) as {
      readonly valid: boolean;
      readonly problems: readonly { readonly line: number; readonly path: string }[];
    };
    assert.equal(found.valid, false);
    assert.deepEqual(
      found.problems.map(({ line, path: key }) => [line, key]),
      [
        [2, "cloud.locl"],
        [4, "cells.nametg"],
      ],
    );
  });
});

describe("kip, with the arguments of the original's StatefulSet", { timeout: 60_000 }, () => {
  it("starts, and says what has no effect", () => {
    using folder = temporaryFolder();
    const file = path.join(folder.path, "provider.yaml");
    writeFileSync(file, good);
    const args = [
      "--provider kip --provider-config",
      file,
      "--network-agent-secret kube-system/kip-network-agent --disable-taint",
      "--klog.logtostderr --klog.v=2 --metrics-addr=:10255 --nodename=kip-provider-0",
    ].flatMap((words) => words.split(" "));
    const env = { PATH: process.env["PATH"], HOME: folder.path, MOCK_CLOUD_API: "true" };
    const { status, stderr } = spawnSync(kip, args, { encoding: "utf8", env });
    assert.equal(status, 1);
    assert.match(stderr, /--network-agent-secret is deprecated and has no effect: kip sends cells/);
    assert.match(stderr, /MOCK_CLOUD_API has no effect: /);
    // The arguments are valid. Only the cluster is missing.
    assert.match(stderr, /^kip: Cannot (find a Kubernetes cluster|read kubeconfig)/m);
  });

  it("finds mistakes in flags of the node before it needs a cluster, and so before it waits for its turn", () => {
    for (const [arg, message] of [
      ["--full-resync-period=5", /Cannot use --full-resync-period 5: a duration/],
      ["--cluster-dns=kube-dns", /Cannot use --cluster-dns kube-dns/],
      ["--trace-sample-rate=101", /Cannot use --trace-sample-rate 101: always, never, or 0/],
      ["--trace-exporter=jaegr", /--trace-exporter jaegr/],
      ["--client-ca-file=/nowhere/ca.crt", /Cannot read --client-ca-file \/nowhere\/ca.crt/],
      [
        `--tls-cert-file=${import.meta.filename} --tls-private-key-file=${import.meta.filename}`,
        /Cannot use --tls-cert-file with --tls-private-key-file/,
      ],
    ] as const) {
      const args = [...arg.split(" "), "--provider-config=/"];
      const { status, stderr } = spawnSync(kip, args, { encoding: "utf8" });
      assert.equal(status, 1);
      assert.match(stderr, message);
    }
  });

  it("refuses another provider and another system", () => {
    for (const [arg, message] of [
      ["--provider=aws", /one of kip is expected/],
      ["--os=Windows", /one of linux is expected/],
    ] as const) {
      const { status, stderr } = spawnSync(kip, [arg], { encoding: "utf8" });
      assert.equal(status, 1);
      assert.match(stderr, message);
    }
  });
});

describe("followConfig()", { timeout: 60_000 }, () => {
  it("applies what may change, reports what needs a restart, and keeps what is in force while there are problems", async () => {
    using folder = temporaryFolder();
    const file = path.join(folder.path, "provider.yaml");
    writeFileSync(file, good);
    await using following = await follow(file);
    const { next, applied } = following;
    writeFileSync(file, good.replace("nametag: a", "nametag: b"));
    assert.deepEqual(await next(), [
      "Applied the changed settings, for cells that start from now on",
      ["cells.nametag"],
    ]);
    assert.deepEqual(
      applied.map(({ nametag }) => nametag),
      ["b"],
    );
    writeFileSync(file, good.replace("nametag", "nametg"));
    assert.deepEqual(await next(), [
      "Kept the configuration in force: the changed file has problems",
      undefined,
    ]);
    // Compared with the content in force, not with the file that had problems.
    writeFileSync(
      file,
      good.replace("nametag: a", "nametag: b").replace("{}", "{ range: 10.9.0.0/16 }"),
    );
    assert.deepEqual(await next(), [
      "Changed settings take effect when kip is started again",
      ["cloud.local.range"],
    ]);
    assert.equal(applied.length, 1);
  });

  it("follows the file of a ConfigMap's volume, whose folder is exchanged", async () => {
    using folder = temporaryFolder();
    const at = (name: string): string => path.join(folder.path, name);
    const version = (name: string, text: string): void => {
      mkdirSync(at(name));
      writeFileSync(at(`${name}/provider.yaml`), text);
      symlinkSync(name, at("..data_tmp"));
      renameSync(at("..data_tmp"), at("..data"));
    };
    version("..1", good);
    symlinkSync("..data/provider.yaml", at("provider.yaml"));
    await using following = await follow(at("provider.yaml"));
    version("..2", good.replace("nametag: a", "nametag: c"));
    rmSync(at("..1"), { recursive: true });
    assert.deepEqual((await following.next())[1], ["cells.nametag"]);
  });
});

/** Follows a file. `next` waits for the next log line. */
async function follow(file: string) {
  const stop = new AbortController();
  const lines = new AsyncQueue<readonly [string, unknown]>();
  const applied: ProviderConfig[] = [];
  const logger = createLogger({
    level: "info",
    write: (record) => {
      const { msg, keys } = JSON.parse(record) as { readonly msg: string; readonly keys: unknown };
      lines.push([msg, keys]);
    },
  });
  const opened = await ConfigFile.open(file, logger);
  const { content } = opened.usable;
  const apply = async (config: ProviderConfig): Promise<void> => void applied.push(config);
  followConfig({ file: opened, content, signal: stop.signal, apply, logger });
  const iterator = lines[Symbol.asyncIterator]();
  return {
    applied,
    next: async () => {
      const { value, done } = await iterator.next();
      return done === true ? assert.fail("the log ended") : value;
    },
    [Symbol.asyncDispose]: async () => stop.abort(),
  };
}
