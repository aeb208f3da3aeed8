import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { growth } from "@kip/base/testing";
import * as fc from "fast-check";
import { CloudInitError } from "../errors.ts";
import { maxUserDataBytes } from "./cloud-config.ts";
import { checkCloudConfig, parseUserData } from "./parse-user-data.ts";

function userData(config: unknown): Buffer {
  return Buffer.from(`#cloud-config\n${JSON.stringify(config)}\n`);
}

const yaml = (text: string): Buffer => Buffer.from(`#cloud-config\n${text}`);

/** The content of each file as text. */
async function contentsOf(data: Uint8Array): Promise<readonly string[]> {
  const { writeFiles } = await parseUserData(data);
  return writeFiles.map(({ content }) => Buffer.from(content).toString());
}

const example = `hostname: web-1
# Comments are for people.
write-files:
  - path: /etc/plain
    permissions: 0600
    owner: root:adm
    content: |
      one
        two
  - {path: /etc/base64, encoding: b64, content: YjY0}
  - path: /etc/packed
    encoding: gz+b64
    content: ${gzipSync("packed").toString("base64")}
  - path: /etc/binary
    content: !!binary |
      AAEC
      /w==
users:
  - default
  - name: alice
    gecos: Alice Example
    groups: adm, staff
    shell: /bin/bash
    lock_passwd: yes
    uid: 1234
    ssh-authorized-keys:
      - ssh-ed25519 AAAA alice
  - bob
ssh_authorized_keys: [ssh-ed25519 BBBB root]
runcmd:
  - 'echo "a: b"' # in quotes, as it would be a map
  - [touch, /tmp/a b, 1]
  - |
    if true; then
      echo yes
    fi
`;

describe("parseUserData()", () => {
  it("reads a cloud-config in YAML", async () => {
    const config = await parseUserData(yaml(example));
    assert.equal(config.hostname, "web-1");
    const [plain, , , binary] = config.writeFiles;
    assert.deepEqual(
      { ...plain, content: undefined },
      { path: "/etc/plain", mode: 0o600, owner: "root:adm", content: undefined },
    );
    assert.deepEqual([...(binary?.content ?? [])], [0, 1, 2, 255]);
    const contents = config.writeFiles.map(({ content }) => Buffer.from(content).toString());
    assert.deepEqual(contents.slice(0, 3), ["one\n  two\n", "b64", "packed"]);
    const keys = (name: string) => [`ssh-ed25519 ${name}`];
    assert.deepEqual(config.users, [
      {
        name: "alice",
        isLocked: true,
        sshAuthorizedKeys: keys("AAAA alice"),
        gecos: "Alice Example",
        groups: ["adm", "staff"],
        shell: "/bin/bash",
        uid: 1234,
      },
      { name: "bob", sshAuthorizedKeys: [], groups: [] },
    ]);
    assert.deepEqual(config.sshAuthorizedKeys, keys("BBBB root"));
    const script = "if true; then\n  echo yes\nfi\n";
    assert.deepEqual(config.runCommands, ['echo "a: b"', ["touch", "/tmp/a b", "1"], script]);
    assert.deepEqual(config.warnings, [
      'line 20, column 5: Skipped the user "default": the image of cells has none',
    ]);
  });

  for (const encoding of ["gz+b64", "gzip+b64", "gz+base64", "gzip+base64", "GZ+B64"])
    it(`unpacks content of the encoding ${encoding}`, async () => {
      const content = gzipSync("packed").toString("base64");
      const data = userData({ write_files: [{ path: "/a", content, encoding }] });
      assert.deepEqual(await contentsOf(data), ["packed"]);
    });

  for (const encoding of ["gz", "gzip"])
    it(`unpacks binary content of the encoding ${encoding}`, async () => {
      const content = gzipSync("packed").toString("base64");
      const file = `{path: /a, encoding: ${encoding}, content: !!binary ${content}}`;
      assert.deepEqual(await contentsOf(yaml(`write_files: [${file}]\n`)), ["packed"]);
    });

  it("reads milpa_files as write_files, with their encodings", async () => {
    const file = { path: "/a", content: "YQ==", encoding: "base64" };
    assert.deepEqual(await contentsOf(userData({ milpa_files: [file] })), ["a"]);
  });

  it("unpacks gzip, recognised by its first bytes", async () => {
    assert.equal((await parseUserData(gzipSync(userData({ hostname: "x" })))).hostname, "x");
  });

  it("takes a script as it is", async () => {
    const script = Buffer.from("#!/bin/sh\necho $private_ipv4\n");
    assert.deepEqual((await parseUserData(script)).scripts, [script]);
  });

  it("reads the parts of a MIME message; keys of later ones replace those before", async () => {
    const message = [
      'Content-Type: multipart/mixed; boundary="=== b"',
      "MIME-Version: 1.0",
      "",
      "Not a part.",
      "--=== b",
      'Content-Type: text/cloud-config; charset="us-ascii"',
      "",
      "#cloud-config",
      "hostname: first",
      "runcmd: [one]",
      "--=== b",
      "Content-Type: text/x-shellscript",
      "Content-Transfer-Encoding: base64",
      "",
      Buffer.from("#!/bin/sh\necho 1\n").toString("base64"),
      "--=== b",
      "Content-Type: text/plain",
      "",
      "#cloud-config",
      "runcmd: [two]",
      "--=== b",
      "Content-Type: text/cloud-boothook",
      "",
      "#cloud-boothook",
      "--=== b--",
      "",
    ];
    for (const lineEnd of ["\n", "\r\n"]) {
      const config = await parseUserData(Buffer.from(message.join(lineEnd)));
      assert.equal(config.hostname, "first");
      assert.deepEqual(config.runCommands, ["two"]);
      assert.deepEqual(config.scripts.map(String), ["#!/bin/sh\necho 1\n"]);
      assert.match(config.warnings.join(), /type "text\/cloud-boothook"/);
    }
  });

  it("puts the machine's addresses into texts, not into encoded content", async () => {
    const plain = "$private_ipv4 $public_ipv6 \\$private_ipv4 $other";
    const encoded = Buffer.from("$private_ipv4").toString("base64");
    const config = await parseUserData(
      userData({
        write_files: [
          { path: "/a", content: plain },
          { path: "/b", content: encoded, encoding: "b64" },
        ],
        runcmd: ["ping $public_ipv4", ["ping", "$private_ipv4"]],
      }),
      { addresses: { privateIpv4: "10.0.0.5", publicIpv4: "192.0.2.5" } },
    );
    assert.deepEqual(
      config.writeFiles.map(({ content }) => Buffer.from(content).toString()),
      ["10.0.0.5  $private_ipv4 $other", "$private_ipv4"],
    );
    assert.deepEqual(config.runCommands, ["ping 192.0.2.5", ["ping", "10.0.0.5"]]);
  });

  it("refuses files that are small only as long as they are packed", async () => {
    const packed = gzipSync(Buffer.alloc(1 << 20)).toString("base64");
    const file = { path: "/a", content: packed, encoding: "gz+b64" };
    const files = (length: number) => userData({ write_files: Array.from({ length }, () => file) });
    assert.equal((await parseUserData(files(8))).writeFiles.length, 8);
    // Reading all of them would take 500 MiB.
    const before = process.memoryUsage().arrayBuffers;
    await assert.rejects(parseUserData(files(500)), {
      code: "USER_DATA_INVALID",
      message: /more than 8388608 bytes of files/,
    });
    assert.ok(process.memoryUsage().arrayBuffers - before < 100 << 20);
  });

  it("names some of very many mistakes", async () => {
    const wrong = userData({ runcmd: Array.from({ length: 100_000 }, () => ({})) });
    await assert.rejects(parseUserData(wrong), (error) => String(error).length < 5000);
    const keys = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`k${index}`, 1]));
    const { warnings } = await parseUserData(userData({ ...keys, ["x".repeat(100_000)]: 1 }));
    assert.ok(warnings.join("").length < 5000);
    assert.match(warnings.at(-1) ?? "", /and more/);
  });

  for (const key of [{ append: true }, { source: { uri: "http://192.0.2.1/" } }, { defer: true }]) {
    it(`refuses a file with ${Object.keys(key)[0]}, whose content would be another one`, async () => {
      const file = { path: "/etc/hosts", content: "192.0.2.1 x", ...key };
      await assert.rejects(parseUserData(userData({ write_files: [file] })), {
        code: "USER_DATA_INVALID",
        message: new RegExp(`"write_files\\[0\\].${Object.keys(key)[0]}" is not supported`),
      });
    });
  }

  it("takes a header with nothing after it, and nothing at all", async () => {
    assert.deepEqual((await parseUserData(Buffer.from("#cloud-config"))).writeFiles, []);
    assert.deepEqual((await parseUserData(Buffer.alloc(0))).writeFiles, []);
  });

  it("warns of unknown keys and names the nearest", async () => {
    const { warnings } = await parseUserData(userData({ write_file: [], apt: {} }));
    assert.match(warnings[0] ?? "", /"write_file".*"write_files"/);
    assert.match(warnings[1] ?? "", /"apt"/);
  });

  it("names every wrong value in one error, with its place", async () => {
    const bad = yaml(`hostname: [7]
write_files:
  - path: relative
  - path: /x/../etc/passwd
  - {path: /x, encoding: rot13}
  - path: /y
    permissions: rw
runcmd: not a list
users:
  - name: Root User
  - name: a
    homedir: home
    passwd: "a:b"
    groups: [x y]
`);
    await assert.rejects(parseUserData(bad), (error) => {
      assert.ok(CloudInitError.is(error, "USER_DATA_INVALID"));
      const places = [...error.message.matchAll(/line (\d+), column (\d+): "([^"]*)"/g)];
      assert.deepEqual(
        places.map(([, line, column, path]) => `${line}:${column} ${path}`),
        [
          "2:1 hostname",
          "4:5 write_files[0].path",
          "5:5 write_files[1].path",
          "6:16 write_files[2].encoding",
          "8:5 write_files[3].permissions",
          "11:5 users[0].name",
          "14:5 users[1].passwd",
          "13:5 users[1].homedir",
          "15:5 users[1].groups",
          "9:1 runcmd",
        ],
      );
      return true;
    });
  });

  it("says where the mistakes of a cloud-config in JSON are", async () => {
    await assert.rejects(parseUserData(Buffer.from('#cloud-config\n{"hostname":\n  {}}')), {
      message: /line 2, column 2: "hostname" is not a text/,
    });
  });

  it("says what to do about a command that YAML reads as a map", async () => {
    await assert.rejects(parseUserData(yaml("runcmd:\n  - echo a: b\n")), {
      message: /line 3, column 5: "runcmd\[0\]" is a map; a command with ": " needs quotes/,
    });
  });

  it("says where YAML ends to be YAML", async () => {
    await assert.rejects(parseUserData(yaml("hostname: a\n\truncmd: []\n")), {
      code: "USER_DATA_INVALID",
      message: /line 3, column 1: a tab cannot indent a line/,
    });
  });

  it("refuses what is neither a cloud-config nor a script nor a message", async () => {
    for (const text of ["hostname: a\n", "#cloud-configuration\n", "#include\nhttp://192.0.2.1/\n"])
      await assert.rejects(parseUserData(Buffer.from(text)), { code: "USER_DATA_INVALID" });
    await assert.rejects(parseUserData(Buffer.from([...yaml("a: "), 0xff])), /not UTF-8/);
  });

  it("refuses a bomb", async () => {
    const bomb = gzipSync(Buffer.alloc(maxUserDataBytes + 1));
    const part = `--b\nContent-Transfer-Encoding: base64\n\n${bomb.toString("base64")}\n`;
    const message = (parts: string): Buffer =>
      Buffer.from(`Content-Type: multipart/mixed; boundary=b\n\n${parts}--b--\n`);
    const nested = `--b\nContent-Type: multipart/mixed; boundary=b\n\n`.repeat(1000);
    const laughs = Array.from(
      { length: 10 },
      (_, at) =>
        `k${at}: &a${at} [${Array(10)
          .fill(at === 0 ? "x" : `*a${at - 1}`)
          .join(", ")}]`,
    );
    const small = gzipSync(Buffer.alloc(maxUserDataBytes, "#!")).toString("base64");
    const manySmall = `--b\nContent-Transfer-Encoding: base64\n\n${small}\n`.repeat(60);
    for (const data of [
      bomb,
      message(part),
      message(nested),
      message("--b\n\nx\n".repeat(1000)),
      message(manySmall),
      yaml(laughs.join("\n")),
      yaml(`runcmd: ${"[".repeat(100_000)}`),
      yaml(`runcmd:\n${"- ".repeat(100_000)}`),
      yaml(`runcmd: [${"a,".repeat(100_000)}]`),
    ])
      await assert.rejects(parseUserData(data), (error) =>
        CloudInitError.is(error, "USER_DATA_INVALID"),
      );
  });

  it("takes time in proportion to the length of what it reads", async () => {
    const line = "x".repeat(100);
    for (const make of [
      (count: number) => `hostname: "${`${line}\n`.repeat(count)}`,
      (count: number) => `hostname: ${`${line} `.repeat(count)}`,
      (count: number) => `hostname: |\n${` ${line}\n`.repeat(count)}`,
      (count: number) => `hostname: >\n${"\n".repeat(100 * count)} x`,
      (count: number) => `hostname:\n${"  # x\n".repeat(20 * count)} x`,
      (count: number) => `hostname: "${" ".repeat(100 * count)}x\n"`,
      (count: number) => `hostname: ${" ".repeat(100 * count)}x`,
      (count: number) => `runcmd: [${"a, ".repeat(5 * count)}]`,
    ]) {
      const work = async (count: number) => await parseUserData(yaml(make(count))).catch(() => {});
      assert.ok((await growth(work, 8000)) < 40, make(1));
    }
  });

  it("gives a result or one of its own errors for any bytes", async () => {
    const anything = fc.oneof(
      fc.uint8Array(),
      fc.json().map((json) => Buffer.from(`#cloud-config\n${json}`)),
      fc.record({ write_files: fc.array(fc.anything()), runcmd: fc.anything() }).map(userData),
      fc
        .array(fc.constantFrom(...example.split(/(?<=[\s:])/)))
        .map((parts) => yaml(parts.join(""))),
      fc
        .string()
        .map((text) => Buffer.from(`Content-Type: multipart/x; boundary=b\n\n${text}--b--`)),
    );
    await fc.assert(
      fc.asyncProperty(anything, async (data) => {
        try {
          await parseUserData(data);
        } catch (error) {
          assert.ok(CloudInitError.is(error, "USER_DATA_INVALID"), String(error));
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("checkCloudConfig()", () => {
  it("gives the document as it was written, and never throws", async () => {
    const { value, problems } = await checkCloudConfig("runcmd: [a]\nother: 0644\n");
    assert.deepEqual(problems, []);
    assert.deepEqual(structuredClone(value), { runcmd: ["a"], other: "0644" });
    const broken = await checkCloudConfig("a: [\n");
    assert.deepEqual(broken.problems, [
      { path: [], message: "this bracket is not closed", line: 1, column: 4 },
    ]);
  });
});
