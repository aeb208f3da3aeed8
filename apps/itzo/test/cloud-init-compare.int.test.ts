import assert from "node:assert/strict";
import { chmod, copyFile, lstat, mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { before, describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { runCommand } from "@kip/base";
import { buildPackageTree } from "@kip/cell-image";
import { temporaryFolder } from "@kip/testing";
import { build } from "esbuild";

// Applies the same seeds with Debian's cloud-init and with ours. Each runs in a copy of the same root folder, in its own
// namespaces, where it does not see this machine's files, name, network and processes.

const isWanted = process.env["KIP_TEST_CLOUD_INIT"] === "1";
const skip = isWanted ? false : "KIP_TEST_CLOUD_INIT=1 downloads 60 MB of Debian packages for it";
const seedPlace = "var/lib/cloud/seed/nocloud";

/** The stages of Debian's cloud-init, limited to modules that ours supports, in its order. */
const configuration = `datasource_list: [NoCloud]
disable_root: false
ssh_deletekeys: false
ssh_genkeytypes: []
users: []
system_info: {distro: debian, paths: {cloud_dir: /var/lib/cloud/, templates_dir: /etc/cloud/templates/}}
cloud_init_modules: [write-files, set_hostname, users-groups, ssh]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user]
`;

const commands = {
  canonical:
    "cloud-init init --local && cloud-init init && cloud-init modules --mode=config && cloud-init modules --mode=final",
  ours: `/node /itzo.js cloud-init --ignore-failure --from-nocloud=/${seedPlace}`,
};

/** Includes what Debian's essential packages contain, which a tree of packages lacks. */
const packages = [
  "base-files",
  "bash",
  "cloud-init",
  "coreutils",
  "dash",
  "hostname",
  "libc-bin",
  "libstdc++6",
].concat(["login", "mount", "passwd", "procps", "sed", "util-linux"]);

const databases = {
  passwd: "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n",
  group: "root:x:0:\ndaemon:x:1:\nadm:x:4:\naudio:x:29:\n",
  shadow: "root:*:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n",
  gshadow: "root:*::\ndaemon:*::\nadm:*::\naudio:*::\n",
};

const contained = `mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
cd "$2/root"
mkdir -p proc root home dev srv tmp
mount -t proc proc proc
mount --rbind /dev dev
chroot . /bin/sh -c "$3"`;

describe("cloud-init beside Canonical's", { skip, timeout: 900_000 }, () => {
  let tree = "";
  let program: Uint8Array = new Uint8Array();
  before(async () => {
    tree = await buildPackageTree({ cacheDir: "/var/cache/kip/cloud-init", packages });
    const entry = path.join(import.meta.dirname, "../src/main.ts");
    const built = await build({
      entryPoints: [entry],
      bundle: true,
      write: false,
      platform: "node",
    });
    program = built.outputFiles[0]?.contents ?? assert.fail("esbuild gave no file");
  });

  /** The files at each of the places after a cloud-init has applied the user data. */
  async function apply(
    kind: keyof typeof commands,
    userData: Uint8Array,
    places: readonly string[],
  ) {
    using folder = temporaryFolder();
    const upper = path.join(folder.path, "upper");
    const put = async (place: string, content: string | Uint8Array): Promise<void> => {
      await mkdir(path.dirname(path.join(upper, place)), { recursive: true });
      await writeFile(path.join(upper, place), content);
    };
    await chmod(folder.path, 0o755);
    for (const name of ["work", "root"]) await mkdir(path.join(folder.path, name));
    for (const [name, content] of Object.entries(databases)) await put(`etc/${name}`, content);
    await put("etc/cloud/cloud.cfg", configuration);
    await put(`${seedPlace}/meta-data`, "instance-id: i-1\nlocal-hostname: from-cloud\n");
    await put(`${seedPlace}/user-data`, userData);
    await put("itzo.js", program);
    await copyFile(process.execPath, path.join(upper, "node"));
    const own = ["--mount", "--pid", "--fork", "--kill-child", "--uts", "--net", "--ipc"];
    await runCommand("unshare", [
      ...own,
      "sh",
      "-e",
      "-c",
      contained,
      "sh",
      tree,
      folder.path,
      commands[kind],
    ]);
    return Object.fromEntries(
      await Promise.all(places.map(async (place) => [place, await look(path.join(upper, place))])),
    );
  }

  async function same(
    userData: Uint8Array,
    places: readonly string[],
  ): Promise<Readonly<Record<string, unknown>>> {
    const ours = await apply("ours", userData, places);
    assert.deepEqual(ours, await apply("canonical", userData, places));
    return ours;
  }

  it("writes the same files from YAML in all its forms, in all encodings", async () => {
    const packed = gzipSync("packed\n").toString("base64");
    const config = `#cloud-config
# Comments, an anchor, and each kind of scalar.
hostname: web-1
defaults: &mode '0640'
write_files:
- path: /x/literal
  permissions: *mode
  content: |
    one
      two

- path: /x/folded
  content: >-
    one
    two

    three
- {path: /x/flow, content: "tab\\tquote \\" é", permissions: "0600"}
- path: /x/keep
  content: |+
    kept

- path: /x/octal
  permissions: 0755
  owner: daemon:adm
  content: 'it''s: a # text'
- {path: /x/b64, encoding: b64, content: YjY0}
- {path: /x/packed, encoding: gz+b64, content: ${packed}}
- {path: /x/gzip, encoding: gzip, content: !!binary ${packed}}
- {path: /x/binary, content: !!binary AAEC/w==}
- path: /x/empty
`;
    const names = "literal folded flow keep octal b64 packed gzip binary empty".split(" ");
    const found = await same(Buffer.from(config), [
      "etc/hostname",
      ...names.map((name) => `x/${name}`),
    ]);
    assert.equal(Object.values(found).includes("missing"), false, JSON.stringify(found));
  });

  it("runs the same commands in the same order", async () => {
    const config = `#cloud-config
runcmd:
- cd /srv; name=value
- echo "$PWD $name" > /srv/one
- 'false'
- [sh, -c, 'echo "$1" > "$0"', /srv/two, "a 'b' $name"]
- [touch, /srv/3, 4]
- |
  if true; then
    echo "yes: no" >> /srv/one
  fi
`;
    const found = await same(gzipSync(config), ["srv/one", "srv/two", "srv/3"]);
    assert.match(JSON.stringify(found), /\/srv value\\nyes: no/);
  });

  it("takes the same from the parts of a MIME message", async () => {
    const script = Buffer.from("#!/bin/sh\necho script >> /srv/order\n").toString("base64");
    const part = (type: string, body: string, encoding = "7bit"): string =>
      `--==b\nContent-Type: ${type}\nMIME-Version: 1.0\nContent-Transfer-Encoding: ${encoding}\n\n${body}\n`;
    const message = `Content-Type: multipart/mixed; boundary="==b"\nMIME-Version: 1.0\n\n${part(
      "text/cloud-config",
      "#cloud-config\nhostname: first\nwrite_files: [{path: /srv/a, content: a}]",
    )}${part("text/x-shellscript", script, "base64")}${part(
      "text/plain",
      "#cloud-config\nwrite_files: [{path: /srv/b, content: b}]",
    )}--==b--\n`;
    await same(Buffer.from(message), ["etc/hostname", "srv/a", "srv/b", "srv/order"]);
  });

  it("makes the same users, with the same keys", async () => {
    const hash = "$6$salt$3rXEd4LKkfoNhNGPpK8v0lrcCAnN1Ns9rKwGcKEm5DrQpYJpX4Bn4OeGTKcX";
    const config = Buffer.from(`#cloud-config
users:
- name: alice
  gecos: Alice Example
  groups: adm, audio
  shell: /bin/bash
  passwd: ${hash}
  lock_passwd: false
  ssh_authorized_keys: [ssh-ed25519 AAAA alice]
- {name: service, system: true, no_create_home: true, shell: /usr/sbin/nologin, homedir: /srv/s}
- {name: bob, uid: "1500", homedir: /srv/bob, shell: /bin/sh}
ssh_authorized_keys: [ssh-ed25519 BBBB root]
`);
    const places = [
      "etc/passwd",
      "etc/group",
      "etc/shadow",
      "home/alice/.ssh/authorized_keys",
      "root/.ssh/authorized_keys",
    ];
    const [ours, canonical] = [
      await apply("ours", config, places),
      await apply("canonical", config, places),
    ];
    for (const place of places)
      assert.deepEqual(accounts(ours[place]), accounts(canonical[place]), place);
    assert.match(JSON.stringify(ours), /alice:x:1000:1000:Alice Example:\/home\/alice:\/bin\/bash/);
  });
});

async function look(file: string): Promise<unknown> {
  try {
    const { mode, uid, gid } = await lstat(file);
    const content = (await readFile(file)).toString("latin1");
    return { mode: (mode & 0o7777).toString(8), owner: `${uid}:${gid}`, content };
  } catch {
    return "missing";
  }
}

/** Entries in any order, without comments and the day of a password's last change. */
function accounts(found: unknown): readonly string[] {
  const { content } = found as { readonly content: string };
  return content
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => line.replace(/^([^:]*:[^:]*):\d{5}:/, "$1:DAY:"))
    .sort();
}
