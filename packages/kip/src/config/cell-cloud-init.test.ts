import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, it } from "node:test";
import { cloudLimits } from "@kip/cloud";
import { parseUserData } from "@kip/cloud-init";
import { identityPath, userData } from "../cell/steps/user-data.ts";
import { readCellCloudInit } from "./cell-cloud-init.ts";

const identity = { cellName: "cell-1", ca: "CA", certificate: "CERTIFICATE", key: "KEY" };

describe("readCellCloudInit()", () => {
  it("gives what cells apply, with the identity after it", async () => {
    const { cloudInit, problems, notices } = await readCellCloudInit(`#cloud-config
write-files:
  - {path: /etc/a, permissions: 0600, content: "1"}
  - {path: /etc/b, content: !!binary AAEC}
runcmd:
  - [echo, $private_ipv4]
packages: [vim]
`);
    assert.deepEqual(problems, []);
    assert.deepEqual(notices, [
      {
        line: 7,
        message: 'Skipped "packages" of the user data: not known here',
        remedy: undefined,
      },
    ]);
    const data = userData(identity, cloudInit);
    assert.doesNotMatch(Buffer.from(data).toString(), /packages/);
    const config = await parseUserData(data);
    assert.deepEqual(
      config.writeFiles.map(({ path, mode, content }) => [path, mode, [...content].slice(0, 3)]),
      [
        ["/etc/a", 0o600, [49]],
        ["/etc/b", 0o644, [0, 1, 2]],
        [identityPath, 0o600, [...Buffer.from('{"c')]],
      ],
    );
    assert.deepEqual(config.runCommands, [["echo", "$private_ipv4"]]);
  });

  it("takes keys without a value as not given", async () => {
    const { cloudInit, problems } = await readCellCloudInit(
      "#cloud-config\nwrite_files:\n#- path: /etc/motd\nruncmd:\n- ls\n",
    );
    assert.deepEqual(problems, []);
    const { writeFiles, runCommands } = await parseUserData(userData(identity, cloudInit));
    assert.deepEqual([writeFiles.length, runCommands], [1, ["ls"]]);
  });

  it("refuses what cells do not take, however well it is compressed", async () => {
    const text = `runcmd:\n- &a "${"x".repeat(30_000)}"\n${"- *a\n".repeat(40)}`;
    const { problems } = await readCellCloudInit(text);
    assert.match(problems[0]?.message ?? "", /bytes long with all that its aliases stand for/);
  });

  it("refuses what would take the place of something that a cell needs, with its line", async () => {
    const { cloudInit, problems } = await readCellCloudInit(`hostname: same
write_files:
  - path: ${identityPath}
  - path: /var//lib/./itzo/x
  - path: /etc/itzo
  - path: /lib/kip/boot
milpa-files:
  - path: /var/run/kip/seed-applied
`);
    assert.equal(cloudInit, undefined);
    assert.deepEqual(
      problems.map(({ line, message }) => [line, message.replace(/ is "[^]*/, "")]),
      [
        [1, '"hostname" would give all cells the same name'],
        [3, '"write_files[0].path"'],
        [4, '"write_files[1].path"'],
        [6, '"write_files[3].path"'],
        [8, '"milpa-files[0].path"'],
      ],
    );
  });

  it("refuses what is not a cloud-config, with its line", async () => {
    for (const [text, line] of [
      ["runcmd: [", 1],
      ["\nruncmd:\n- {a: b}\n", 3],
      ["- a\n", undefined],
    ] as const) {
      const { cloudInit, problems } = await readCellCloudInit(text);
      assert.equal(cloudInit, undefined);
      assert.equal(problems[0]?.line, line);
    }
  });

  it("refuses what leaves no room for the identity in the user data of a cloud", async () => {
    const content = (bytes: number): string =>
      `write_files: [{path: /etc/a, content: ${randomBytes(bytes).toString("base64")}}]`;
    const { cloudInit } = await readCellCloudInit(content(8000));
    // As large as one with two authorities, whose certificates do not compress.
    const large = { ...identity, ca: randomBytes(2400).toString("base64") };
    const data = userData(large, cloudInit);
    assert.ok(data.length <= cloudLimits.userDataBytes, `${data.length} bytes`);
    const tooLarge = await readCellCloudInit(content(12_000));
    assert.match(tooLarge.problems[0]?.message ?? "", /takes 1\d{4} bytes .*room for 11000/);
  });
});
