import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { podWith } from "@kip/k8s-types/testing";
import { temporaryFolder } from "@kip/testing";
import { readSeccompProfiles } from "./seccomp-profiles.ts";

const temporary = temporaryFolder();
const root = path.join(temporary.path, "seccomp");
mkdirSync(path.join(root, "profiles"), { recursive: true });

const localhost = (localhostProfile: string) => ({
  seccompProfile: { type: "Localhost", localhostProfile },
});
const only = async (name: string): Promise<readonly [string | undefined, string | undefined]> => {
  const pod = podWith({ spec: { containers: [{ name: "a", securityContext: localhost(name) }] } });
  const [{ json, error } = {}] = await readSeccompProfiles(pod, root);
  return [json, error];
};
const write = (name: string, content: unknown): string => {
  const file = path.join(root, name);
  writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content));
  return file;
};

describe("readSeccompProfiles()", () => {
  after(() => temporary.remove());

  it("reads each profile once, that of the pod where a container has none of its own, and none of privileged ones", async () => {
    const profile = {
      defaultAction: "SCMP_ACT_ERRNO",
      architectures: ["SCMP_ARCH_X86_64"],
      syscalls: [
        {
          names: ["clone"],
          action: "SCMP_ACT_ALLOW",
          args: [{ index: 0, value: 2_114_060_288, valueTwo: 0, op: "SCMP_CMP_MASKED_EQ" }],
        },
      ],
    };
    const docker = { archMap: [{ architecture: "SCMP_ARCH_X86_64" }], ...profile };
    write("profiles/a.json", docker);
    write("b.json", { defaultAction: "SCMP_ACT_ALLOW" });
    const pod = podWith({
      spec: {
        securityContext: localhost("profiles/a.json"),
        initContainers: [{ name: "one" }],
        containers: [
          { name: "two", securityContext: localhost("b.json") },
          { name: "three", securityContext: { privileged: true, ...localhost("c.json") } },
          { name: "four", securityContext: { seccompProfile: { type: "RuntimeDefault" } } },
          { name: "five" },
        ],
      },
    });
    const read = await readSeccompProfiles(pod, root);
    assert.deepEqual(
      read.map(({ name, json = "null" }) => [name, JSON.parse(json)]),
      [
        ["profiles/a.json", profile],
        ["b.json", { defaultAction: "SCMP_ACT_ALLOW" }],
      ],
    );
    assert.deepEqual(await readSeccompProfiles(podWith({}), "/nowhere"), []);
  });

  it("reports a missing profile as a container runtime does", async () => {
    const file = path.join(root, "missing.json");
    const error = `cannot load seccomp profile "${file}": open ${file}: no such file or directory`;
    assert.deepEqual(await only("missing.json"), [undefined, error]);
  });

  it("leaves its folder by no path, and follows the links in it", async () => {
    writeFileSync(path.join(temporary.path, "other.json"), '{"defaultAction":"SCMP_ACT_ALLOW"}');
    for (const name of ["../other.json", `${temporary.path}/other.json`, "a/../../other.json", ""])
      assert.match((await only(name))[1] ?? "", /must be a relative path without "\.\."$/);
    symlinkSync("../other.json", path.join(root, "link.json"));
    assert.equal((await only("link.json"))[0], '{"defaultAction":"SCMP_ACT_ALLOW"}');
  });

  it("says what is wrong with a profile", async () => {
    for (const [content, problem] of [
      ["{", /^decoding seccomp profile failed ".*": Expected property name/],
      [{}, /defaultAction/],
      [{ defaultAction: "SCMP_ACT_NOTIFY" }, /defaultAction/],
      [{ defaultAction: "SCMP_ACT_ALLOW", syscalls: [{ names: "read" }] }, /syscalls\[0\]\.names/],
      [
        '{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["a"],"action":"SCMP_ACT_LOG","args":[{"index":0,"value":18446744073709551615,"op":"SCMP_CMP_EQ"}]}]}',
        /args\[0\]\.value/,
      ],
    ] as const) {
      write("wrong.json", content);
      assert.match((await only("wrong.json"))[1] ?? "", problem);
    }
  });

  it("reads no more than a profile may have, and waits for nothing", async () => {
    write("large.json", " ".repeat(256 * 1024 + 1));
    assert.match((await only("large.json"))[1] ?? "", /larger than 262144 bytes$/);
    await runCommand("mkfifo", [path.join(root, "pipe.json")]);
    assert.match((await only("pipe.json"))[1] ?? "", /not a file$/);
    assert.match((await only("profiles"))[1] ?? "", /not a file$/);
    const names = Array.from({ length: 6 }, (_, index) => `${index}.json`);
    const filler = { defaultAction: "SCMP_ACT_ALLOW", architectures: ["x".repeat(250_000)] };
    for (const name of names) write(name, filler);
    const containers = names.map((name) => ({ name, securityContext: localhost(name) }));
    const read = await readSeccompProfiles(podWith({ spec: { containers } }), root);
    assert.equal(read.filter(({ json }) => json !== undefined).length, 4);
  });
});
