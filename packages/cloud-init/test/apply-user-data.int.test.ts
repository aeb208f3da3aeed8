import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { applyUserData, emptyConfig, type CloudConfig, type CloudUser } from "@kip/cloud-init";
import { temporaryFolder } from "@kip/testing";

/** A root folder with account files, and the result of applying the user data to it. Needs root, because files get owners. */
async function withRoot(
  work: (tools: {
    readonly root: string;
    readonly read: (file: string) => Promise<string>;
    readonly apply: (config: Partial<CloudConfig>) => Promise<readonly string[]>;
  }) => Promise<void>,
): Promise<void> {
  using root = temporaryFolder();
  const etc = path.join(root.path, "etc");
  await mkdir(path.join(etc, "skel"), { recursive: true });
  const databases = {
    passwd: "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/:/bin/false\n",
    group: "root:x:0:\ndaemon:x:1:\nadm:x:4:\n",
    shadow: "root:*:19000:0:99999:7:::\n",
    "skel/.profile": "umask 022\n",
  };
  for (const [name, content] of Object.entries(databases))
    await writeFile(path.join(etc, name), content, { mode: name === "shadow" ? 0o640 : 0o644 });
  await work({
    root: root.path,
    read: async (file) => await readFile(path.join(root.path, file), "utf8"),
    apply: async (config) => {
      const { errors } = await applyUserData({ ...emptyConfig, ...config }, { root: root.path });
      return errors.map(({ message }) => message);
    },
  });
}

const user = (name: string, more: Partial<CloudUser> = {}): CloudUser => ({
  name,
  sshAuthorizedKeys: [],
  groups: [],
  ...more,
});

describe("applyUserData()", () => {
  it("makes users with groups, home, password and keys", async () => {
    await withRoot(async ({ root, read, apply }) => {
      const passwordHash = "$6$salt$hash0123456789";
      const alice = user("alice", {
        groups: ["adm", "staff"],
        gecos: "Alice",
        shell: "/bin/bash",
        passwordHash,
        sshAuthorizedKeys: ["ssh-ed25519 AAAA"],
      });
      const users = [
        alice,
        user("daemon2", { isSystem: true }),
        user("bob", { primaryGroup: "adm", uid: 1234, hasHome: false }),
      ];
      assert.deepEqual(await apply({ users }), []);
      assert.deepEqual((await read("etc/passwd")).trim().split("\n").slice(2), [
        "alice:x:1000:1000:Alice:/home/alice:/bin/bash",
        "daemon2:x:999:999::/home/daemon2:/bin/sh",
        "bob:x:1234:4::/home/bob:/bin/sh",
      ]);
      assert.deepEqual((await read("etc/group")).trim().split("\n").slice(2), [
        "adm:x:4:alice",
        "alice:x:1000:",
        "staff:x:1001:alice",
        "daemon2:x:999:",
      ]);
      const shadow = await read("etc/shadow");
      assert.ok(shadow.includes(`\nalice:${passwordHash}:`), shadow);
      assert.match(shadow, /^bob:!:\d+:0:99999:7:::$/m);
      assert.match(shadow, /^daemon2:!:\d+::::::$/m);
      assert.equal((await stat(path.join(root, "etc/shadow"))).mode & 0o777, 0o640);
      const home = await stat(path.join(root, "home/alice"));
      assert.deepEqual([home.uid, home.gid, home.mode & 0o777], [1000, 1000, 0o700]);
      assert.equal((await stat(path.join(root, "home/alice/.profile"))).uid, 1000);
      const keys = await stat(path.join(root, "home/alice/.ssh/authorized_keys"));
      assert.deepEqual([keys.uid, keys.mode & 0o777], [1000, 0o600]);
      assert.deepEqual(
        ["home/daemon2", "home/bob"].map((place) => existsSync(path.join(root, place))),
        [false, false],
      );
    });
  });

  it("changes only password and keys of a user that exists", async () => {
    await withRoot(async ({ read, apply }) => {
      await apply({ users: [user("alice", { sshAuthorizedKeys: ["ssh-rsa A"] })] });
      const before = await read("etc/passwd");
      const again = user("alice", {
        shell: "/bin/zsh",
        groups: ["adm"],
        passwordHash: "$6$salt$other012345678",
        isLocked: true,
        sshAuthorizedKeys: ["ssh-rsa A", "ssh-rsa B"],
      });
      assert.deepEqual(await apply({ users: [again] }), []);
      assert.equal(await read("etc/passwd"), before);
      assert.match(await read("etc/shadow"), /^alice:!\$6\$salt\$other/m);
      assert.equal(await read("home/alice/.ssh/authorized_keys"), "ssh-rsa A\nssh-rsa B\n");
    });
  });

  it("adds keys to root's, each once", async () => {
    await withRoot(async ({ root, read, apply }) => {
      await mkdir(path.join(root, "root/.ssh"), { recursive: true });
      await writeFile(path.join(root, "root/.ssh/authorized_keys"), "ssh-rsa OLD");
      const sshAuthorizedKeys = ["ssh-rsa NEW", "ssh-rsa OLD", "ssh-rsa NEW"];
      assert.deepEqual(await apply({ sshAuthorizedKeys }), []);
      assert.equal(await read("root/.ssh/authorized_keys"), "ssh-rsa OLD\nssh-rsa NEW\n");
    });
  });

  it("does not write keys through a link that a user has made", async () => {
    await withRoot(async ({ root, apply }) => {
      await apply({ users: [user("alice")] });
      await symlink("/etc", path.join(root, "home/alice/.ssh"));
      const errors = await apply({ users: [user("alice", { sshAuthorizedKeys: ["ssh-rsa A"] })] });
      assert.equal(errors.length, 1);
      assert.match(errors[0] ?? "", /Cannot set up user "alice": .*\.ssh" is not a folder/);
    });
  });

  it("runs commands in one shell, in order, and goes on after those that fail", async () => {
    await withRoot(async ({ root, read, apply }) => {
      const runCommands = [
        `cd ${root}; name=value`,
        "echo $name > one",
        "if then",
        "false",
        ["sh", "-c", 'echo "$1" > "$0"', "two", "a 'b' $name"],
        "echo out; echo err >&2; sleep 100 &",
      ];
      assert.deepEqual(await apply({ runCommands }), [
        'Cannot run command "if then": exit code 2',
        'Cannot run command "false": exit code 1',
      ]);
      assert.equal(await read("one"), "value\n");
      assert.equal(await read("two"), "a 'b' $name\n");
      assert.match(await read("var/log/cloud-init-output.log"), /out\nerr\n$/);
    });
  });

  it("names the command that ends the shell, and those that did not run", async () => {
    await withRoot(async ({ root, apply }) => {
      const runCommands = ["true", "exit 3", `touch ${root}/never`];
      assert.deepEqual(await apply({ runCommands }), [
        'Cannot run command "exit 3": exit code 3; its output is in /var/log/cloud-init-output.log',
        `Cannot run command "touch ${root}/never": the shell has ended`,
      ]);
      assert.equal(existsSync(path.join(root, "never")), false);
    });
  });

  it("runs scripts after the commands, by the program that they name", async () => {
    await withRoot(async ({ root, read, apply }) => {
      const scripts = [`#!/bin/sh\necho script >> ${root}/order\n`, "#!/bin/false\n"];
      const errors = await apply({
        runCommands: [`echo command >> ${root}/order`],
        scripts: scripts.map((text) => Buffer.from(text)),
      });
      assert.equal(await read("order"), "command\nscript\n");
      assert.equal(errors.length, 1);
      assert.match(errors[0] ?? "", /Cannot run the script "part-002": exit code 1/);
    });
  });
});
