import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import * as fc from "fast-check";
import { maxUserDataBytes, parseUserData } from "./user-data.ts";
import { CloudInitError } from "./errors.ts";

function userData(config: unknown): Buffer {
  return Buffer.from(`#cloud-config\n${JSON.stringify(config)}\n`);
}

describe("parseUserData()", () => {
  it("reads files, host name and commands", () => {
    const config = parseUserData(
      userData({
        hostname: "cell-1",
        write_files: [
          { path: "/a", content: "plain", permissions: "0600", owner: "root:adm" },
          { path: "/b", content: Buffer.from("b64").toString("base64"), encoding: "b64" },
          { path: "/c", content: gzipSync("packed").toString("base64"), encoding: "gz+b64" },
        ],
        runcmd: ["echo a", ["echo", "b"]],
      }),
    );
    assert.equal(config.hostname, "cell-1");
    const contents = config.writeFiles.map((file) => Buffer.from(file.content).toString());
    assert.deepEqual(contents, ["plain", "b64", "packed"]);
    assert.equal(config.writeFiles[0]?.mode, 0o600);
    assert.equal(config.writeFiles[0]?.owner, "root:adm");
    assert.equal(config.writeFiles[1]?.mode, 0o644);
    assert.deepEqual(config.runCommands, ["echo a", ["echo", "b"]]);
    assert.deepEqual(config.warnings, []);
  });

  it("unpacks gzip, told by its first bytes", () => {
    assert.equal(parseUserData(gzipSync(userData({ hostname: "x" }))).hostname, "x");
  });

  it("refuses files that are small only as long as they are packed", () => {
    const packed = gzipSync(Buffer.alloc(1 << 20)).toString("base64");
    const file = { path: "/a", content: packed, encoding: "gz+b64" };
    assert.equal(
      parseUserData(userData({ write_files: Array.from({ length: 8 }, () => file) })).writeFiles
        .length,
      8,
    );
    // Read to their end they would take 500 MiB.
    const before = process.memoryUsage().arrayBuffers;
    assert.throws(
      () => parseUserData(userData({ write_files: Array.from({ length: 500 }, () => file) })),
      {
        code: "USER_DATA_INVALID",
        message: /files have more than 8388608 bytes/,
      },
    );
    assert.ok(process.memoryUsage().arrayBuffers - before < 100 << 20);
  });

  it("names some of very many mistakes", () => {
    const wrong = userData({ runcmd: Array(100_000).fill(1) });
    assert.throws(
      () => parseUserData(wrong),
      (error) => String(error).length < 5000,
    );
    const keys = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`k${index}`, 1]));
    const { warnings } = parseUserData(userData({ ...keys, ["x".repeat(100_000)]: 1 }));
    assert.ok(warnings.join("").length < 5000);
    assert.match(warnings.at(-1) ?? "", /and more/);
  });

  for (const key of [{ append: true }, { source: { uri: "http://192.0.2.1/" } }]) {
    it(`refuses a file with ${Object.keys(key)[0]}, whose content would be another one`, () => {
      const file = { path: "/etc/hosts", content: "192.0.2.1 x", ...key };
      assert.throws(() => parseUserData(userData({ write_files: [file] })), {
        code: "USER_DATA_INVALID",
        message: /"write_files\[0\]" has "append" or "source"/,
      });
    });
  }

  it("takes a header with nothing after it", () => {
    assert.deepEqual(parseUserData(Buffer.from("#cloud-config")).writeFiles, []);
  });

  it("warns of unknown keys and names the nearest", () => {
    const { warnings } = parseUserData(userData({ write_file: [], apt: {} }));
    assert.match(warnings[0] ?? "", /"write_file".*"write_files"/);
    assert.match(warnings[1] ?? "", /"apt"/);
  });

  it("names every wrong value in one error", () => {
    const bad = userData({
      hostname: 7,
      write_files: [
        { path: "relative" },
        { path: "/x", encoding: "rot13" },
        { path: "/y", permissions: "rw" },
      ],
      runcmd: "not a list",
    });
    assert.throws(
      () => parseUserData(bad),
      (error) =>
        error instanceof Error &&
        CloudInitError.is(error, "USER_DATA_INVALID") &&
        ["hostname", "[0].path", "[1].encoding", "[2].permissions", "runcmd"].every((part) =>
          error.message.includes(part),
        ),
    );
  });

  it("says that YAML is not read", () => {
    assert.throws(
      () => parseUserData(Buffer.from("#cloud-config\nhostname: a\n")),
      (error) => CloudInitError.is(error, "USER_DATA_YAML_UNSUPPORTED"),
    );
  });

  it("refuses a bomb", () => {
    const bomb = gzipSync(Buffer.alloc(maxUserDataBytes + 1));
    assert.throws(
      () => parseUserData(bomb),
      (error) => CloudInitError.is(error, "USER_DATA_INVALID"),
    );
  });

  it("gives a result or one of its own errors for any bytes", () => {
    const anything = fc.oneof(
      fc.uint8Array(),
      fc.json().map((json) => Buffer.from(`#cloud-config\n${json}`)),
      fc.record({ write_files: fc.array(fc.anything()), runcmd: fc.anything() }).map(userData),
    );
    fc.assert(
      fc.property(anything, (data) => {
        try {
          parseUserData(data);
        } catch (error) {
          assert.ok(
            CloudInitError.is(error, "USER_DATA_INVALID", "USER_DATA_YAML_UNSUPPORTED"),
            String(error),
          );
        }
      }),
    );
  });
});
