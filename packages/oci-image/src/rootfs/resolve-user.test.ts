import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { resolveUser } from "./resolve-user.ts";

const passwd = `root:x:0:0:root:/root:/bin/sh
# a comment
app:x:1000:1001::/home/app:/bin/sh
broken
1234:x:5:6::/home/digits:/bin/sh
`;
const group = `root:x:0:
wheel:x:10:root,app
audio:x:29:app
app:x:1001:app
`;

function root(): Disposable & { readonly path: string } {
  const folder = temporaryFolder();
  mkdirSync(path.join(folder.path, "root/etc"), { recursive: true });
  writeFileSync(path.join(folder.path, "root/etc/passwd"), passwd);
  writeFileSync(path.join(folder.path, "root/etc/group"), group);
  return {
    ...folder,
    path: path.join(folder.path, "root"),
    [Symbol.dispose]: folder[Symbol.dispose],
  };
}

describe("resolveUser()", () => {
  const app = { uid: 1000, name: "app", home: "/home/app" };
  const superuser = { uid: 0, gid: 0, name: "root", home: "/root" };
  const cases: Readonly<Record<string, unknown>> = {
    "": { ...superuser, additionalGids: [10] },
    root: { ...superuser, additionalGids: [10] },
    app: { ...app, gid: 1001, additionalGids: [10, 29] },
    "1000": { ...app, gid: 1001, additionalGids: [10, 29] },
    // A kubelet ignores the group.
    "app:audio": { ...app, gid: 1001, additionalGids: [10, 29] },
    "app:nogroup": { ...app, gid: 1001, additionalGids: [10, 29] },
    "1000:77": { ...app, gid: 1001, additionalGids: [10, 29] },
    "77": { uid: 77, gid: 0, additionalGids: [] },
    "77:88": { uid: 77, gid: 0, additionalGids: [] },
    ":88": { ...superuser, additionalGids: [10] },
    // There is a user with these digits as its name, and another number.
    "1234": { uid: 1234, gid: 0, additionalGids: [] },
    "5": { uid: 5, gid: 6, name: "1234", home: "/home/digits", additionalGids: [] },
  };
  for (const [user, expected] of Object.entries(cases)) {
    it(`reads "${user}"`, async () => {
      using image = root();
      assert.deepEqual(await resolveUser(image.path, user), expected);
    });
  }

  for (const user of ["missing", "a:b:c", "-1", "2147483648", "99999999999"]) {
    it(`refuses "${user}"`, async () => {
      using image = root();
      await assert.rejects(resolveUser(image.path, user), {
        code: "IMAGE_USER_UNKNOWN",
        message: /cannot run as user/,
      });
    });
  }

  it("CVE-2018-15664: follows links of the image inside the image only", async () => {
    using image = root();
    const host = path.join(path.dirname(image.path), "host-passwd");
    writeFileSync(host, "evil:x:0:0::/:/bin/sh\n");
    mkdirSync(path.join(image.path, "linked"));
    symlinkSync("/", path.join(image.path, "linked/root"));
    for (const target of [host, "../../host-passwd", `../linked/root/${host}`]) {
      execFileSync("ln", ["-sfn", target, path.join(image.path, "etc/passwd")]);
      await assert.rejects(resolveUser(image.path, "evil"), { code: "IMAGE_USER_UNKNOWN" });
    }
    writeFileSync(path.join(image.path, "linked/users"), "inner:x:7:8::/:/bin/sh\n");
    execFileSync("ln", ["-sfn", "/linked/root/linked/users", path.join(image.path, "etc/passwd")]);
    assert.equal((await resolveUser(image.path, "inner")).uid, 7);
  });

  it("CVE-2019-14271: runs nothing of the image, and loads nothing of it, to read its users", async () => {
    using image = root();
    // Files that could mislead a C library through the image's configuration and environment.
    mkdirSync(path.join(image.path, "lib"));
    writeFileSync(path.join(image.path, "etc/nsswitch.conf"), "passwd: files\n");
    writeFileSync(path.join(image.path, "lib/libnss_files.so.2"), "not even a library");
    const started: unknown[] = [];
    const note = (message: unknown): void => void started.push(message);
    subscribe("child_process", note);
    try {
      assert.equal((await resolveUser(image.path, "0")).uid, 0);
      assert.deepEqual(started, []);
      spawn("true");
      assert.equal(started.length, 1, "a process would be noticed");
    } finally {
      unsubscribe("child_process", note);
    }
  });

  it("is not kept waiting by a FIFO, nor fed by a device or an endless link", async () => {
    using image = root();
    const place = path.join(image.path, "etc/passwd");
    execFileSync("rm", [place]);
    execFileSync("mkfifo", [place]);
    assert.equal((await resolveUser(image.path, "0")).uid, 0);
    execFileSync("ln", ["-sfn", "passwd", place]);
    assert.equal((await resolveUser(image.path, "0")).uid, 0);
    execFileSync("rm", ["-r", path.join(image.path, "etc")]);
    assert.equal((await resolveUser(image.path, "5")).uid, 5);
  });
});
