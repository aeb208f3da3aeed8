import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { imageEntries, librariesOf, parentsOf } from "./image-entries.ts";

describe("imageEntries()", () => {
  it("has folders before files, programs with their mode, and scripts that can be run", async () => {
    using work = temporaryFolder();
    for (const name of ["built", "plane", "debian"]) mkdirSync(path.join(work.path, name));
    writeFileSync(path.join(work.path, "built/agnhost"), "program");
    const entries = await imageEntries(
      {
        hasCertificate: true,
        programs: [{ path: "usr/bin/x", from: { built: "agnhost" }, mode: 0o6755 }],
        files: { pause: "#!/bin/sh\n", "etc/x": "text" },
        links: { y: "x" },
        folders: ["var/log"],
      },
      {
        built: path.join(work.path, "built"),
        controlPlane: path.join(work.path, "plane"),
        debian: path.join(work.path, "debian"),
        certificate: { certificate: "certificate", key: "key" },
      },
    );
    assert.deepEqual(
      entries.map(({ name, mode }) => [name, mode]),
      [
        ["var/", undefined],
        ["var/log/", undefined],
        ["usr/", undefined],
        ["usr/bin/", undefined],
        ["etc/", undefined],
        ["usr/bin/x", 0o6755],
        ["localhost.crt", 0o644],
        ["localhost.key", 0o644],
        ["pause", 0o755],
        ["etc/x", 0o644],
        ["y", undefined],
      ],
    );
  });
});

describe("parentsOf()", () => {
  it("names each folder once, outer before inner", () => {
    assert.deepEqual(
      parentsOf(["a/b/c", "a/d", "e"], ["f/g"]).map(({ name }) => name),
      ["f/", "f/g/", "a/", "a/b/"],
    );
  });
});

describe("librariesOf()", () => {
  it("takes the libraries of the tree, and not the kernel's", () => {
    const listed = [
      "\tlinux-vdso.so.1 (0x00007ffd5d5f2000)",
      "\tlibc.so.6 => /t/lib/libc.so.6 (0x00007f1c8a000000)",
      "\tlibz.so.1 => /other/libz.so.1 (0x00007f1c8a000000)",
      "\t/lib64/ld.so => /t/lib64/ld.so (0x00007f1c8a000000)",
    ].join("\n");
    assert.deepEqual(librariesOf(listed, "/t"), ["lib/libc.so.6", "lib64/ld.so"]);
  });
});
