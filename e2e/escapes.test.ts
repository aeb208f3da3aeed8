// Containers that try to reach the machine they run on, as in CVEs of container runtimes and of tools that copy files. They are
// all in one pod with host networking. Another container checks the machine.
import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { tar, type RawEntry } from "@kip/testing";
import { cluster, eventually, stateDir, type Cluster } from "./cluster.ts";
import {
  busyboxEntries,
  mirroredHost,
  startImageRegistry,
  type ImageRegistry,
} from "./image-registry.ts";

/** A file that only the machine has: a program, like the files that containers could overwrite in older runtimes' CVEs. */
const ownFile = "usr/lib/kip/boot";
const runtime = "usr/bin/crun";
const descriptors = [8, 9];

const link = (name: string, linkName: string): RawEntry => ({ name, type: "2", linkName });
const script = (name: string, content: string): RawEntry => ({ name, mode: 0o755, content });
/** An archive with links that `kubectl cp` must not follow. */
const hostileArchive = tar([
  { name: "loot/", type: "5" },
  link("loot/out", "../../outside"),
  { name: "loot/out/file", content: "written through a link" },
  { name: "../outside/file", content: "written upwards" },
]);

const images = {
  "open/escapes": {
    entries: [
      ...busyboxEntries().filter(({ name }) => name !== "bin/tar"),
      script("bin/tar", "#!/bin/sh\ncat /evil\n"),
      script("bin/again", "#!/proc/self/exe\n"),
      { name: "evil", content: hostileArchive },
    ],
    config: { WorkingDir: "/proc/self/fd/7" },
  },
  "open/links": {
    entries: [
      ...busyboxEntries(),
      { name: "dev/", type: "5" },
      link("dev/null", "/proc/sys/kernel/core_pattern"),
      link("dev/console", "/proc/sys/kernel/core_pattern"),
      link("dev/pts", "/proc/sys"),
      { name: "usr/", type: "5" },
      { name: "usr/lib/", type: "5" },
      link("out", "/../../../../usr/lib"),
    ],
  },
  "open/proc": {
    entries: [
      ...busyboxEntries(),
      { name: "tmp/attr/", type: "5" },
      { name: "tmp/attr/exec", content: "" },
      link("proc", "/tmp"),
    ],
  },
};

/** Prints whether the working folder is below a root that has the machine's file. */
const looksUp = `for up in . .. ../.. ../../.. ../../../..; do test -e $up/${ownFile} && echo escaped; done
echo looked; exec sleep 100000`;
/** Overwrites any program that enters the container. */
const overwrites = `while test ! -e /begin; do sleep 1; done; while test ! -e /end; do for exe in /proc/[0-9]*/exe; do
case $(readlink $exe) in */busybox|"") ;; *) echo found; echo broken 2>/dev/null >$exe ;; esac; done; done
exec sleep 100000`;

describe("a container that tries to reach its machine", () => {
  let kube: Cluster;
  let registry: ImageRegistry;
  before(async () => {
    kube = await cluster("escapes");
    registry = await startImageRegistry(stateDir, images);
    const shell = (name: string, image: string, text: string, more: object = {}): object => ({
      name,
      image: `${mirroredHost}/open/${image}:1`,
      command: ["/bin/busybox", "sh", "-c", text],
      ...more,
    });
    const mount = (mountPath: string): object => ({
      volumeMounts: [{ name: "planted", mountPath }],
    });
    await kube.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "escapes" },
      spec: {
        hostNetwork: true,
        terminationGracePeriodSeconds: 0,
        volumes: [
          { name: "machine", hostPath: { path: "/" } },
          { name: "planted", emptyDir: {} },
        ],
        containers: [
          {
            name: "looker",
            image: "kip.local/demo:latest",
            command: ["sleep", "100000"],
            volumeMounts: [{ name: "machine", mountPath: "/machine", readOnly: true }],
          },
          shell("folder-image", "escapes", looksUp),
          ...descriptors.map((fd) =>
            shell(`folder-${fd}`, "escapes", looksUp, { workingDir: `/proc/self/fd/${fd}` }),
          ),
          shell("links", "links", "exec sleep 100000", { tty: true, ...mount("/out/kip") }),
          shell("proc", "proc", "exec sleep 100000"),
          shell("runtime", "escapes", overwrites, { workingDir: "/" }),
        ],
      },
    });
    await eventually(
      "the containers to run or to fail",
      async () => {
        const states = (await statuses()).map(({ state }) => state);
        return states.every(
          ({ running, waiting }) =>
            running !== undefined || /Error|BackOff/.test(waiting?.reason ?? ""),
        );
      },
      300_000,
    );
  });
  after(async () => {
    await kube.kubectl("delete", "pod", "escapes", "--wait=false");
    await registry[Symbol.asyncDispose]();
  });

  interface Status {
    readonly name: string;
    readonly state: { readonly running?: object; readonly waiting?: { readonly reason: string } };
  }
  async function statuses(): Promise<readonly Status[]> {
    const text = await kube.ok("get", "pod", "escapes", "-o", "json");
    const { status } = JSON.parse(text) as { status: { containerStatuses?: readonly Status[] } };
    const found = status.containerStatuses ?? [];
    return found.length > 0 ? found : [{ name: "none", state: {} }];
  }
  const runs = async (container: string): Promise<boolean> =>
    (await statuses()).some(({ name, state }) => name === container && state.running !== undefined);
  const exec = async (container: string, ...command: readonly string[]): Promise<string> =>
    (await kube.ok("exec", "escapes", "-c", container, "--", ...command)).trim();
  const machine = async (...command: readonly string[]): Promise<string> =>
    await exec("looker", ...command);

  it("CVE-2024-21626: has no folder of the machine for a working folder", async () => {
    for (const name of ["folder-image", ...descriptors.map((fd) => `folder-${fd}`)]) {
      if (!(await runs(name))) continue;
      assert.equal(await kube.ok("logs", "escapes", "-c", name), "looked\n", name);
    }
    // The file does exist on the machine.
    assert.equal(await machine("test", "-e", `/machine/${ownFile}`), "");
  });

  it("CVE-2025-31133, CVE-2025-52565: has its masks and its console where they belong, whatever links it brings", async () => {
    assert.ok(await runs("links"));
    assert.equal(
      await exec("links", "stat", "-c", "%F %t:%T", "/dev/null"),
      "character special file 1:3",
    );
    assert.equal(await exec("links", "cat", "/proc/keys"), "");
    assert.equal(await exec("links", "stat", "-c", "%t:%T", "/proc/kcore"), "1:3");
    for (const file of ["/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern"]) {
      const written = await kube.kubectl(
        "exec",
        "escapes",
        "-c",
        "links",
        "--",
        "sh",
        "-c",
        `echo h >${file}`,
      );
      assert.notEqual(written.status, 0, file);
    }
    assert.equal(await machine("cat", "/proc/sys/kernel/core_pattern"), "core");
  });

  it("CVE-2021-30465: has a volume mounted inside of it, through whatever link", async () => {
    assert.equal(await machine("ls", `/machine/${ownFile}`), `/machine/${ownFile}`);
    assert.match(await exec("links", "cat", "/proc/self/mountinfo"), / \/usr\/lib\/kip /);
    assert.equal(await exec("links", "ls", "/usr/lib/kip"), "");
  });

  it("CVE-2025-52881: does not run, or has the real /proc, when it brings a link for it", async () => {
    if (!(await runs("proc"))) return;
    assert.match(await exec("proc", "cat", "/proc/self/mountinfo"), / - proc proc /);
  });

  it("CVE-2019-5736: does not change the runtime that enters it", async () => {
    const before = await machine("sha256sum", `/machine/${runtime}`);
    await exec("runtime", "touch", "/begin");
    for (let count = 0; count < 3; count++) {
      await kube.kubectl("exec", "escapes", "-c", "runtime", "--", "/bin/again");
      assert.equal(await exec("runtime", "echo", "entered"), "entered");
    }
    await exec("runtime", "touch", "/end");
    assert.equal(await machine("sha256sum", `/machine/${runtime}`), before);
    const { status } = await kube.kubectl("exec", "escapes", "-c", "looker", "--", "true");
    assert.equal(status, 0);
  });

  it("CVE-2020-15257: finds no abstract socket in the machine's network", async () => {
    const sockets = await machine("cat", "/proc/net/unix");
    assert.match(sockets, /\/attach$/m);
    assert.doesNotMatch(sockets, / @/);
  });

  it("CVE-2020-8557: fills the machine's disk with its /etc/hosts, not the memory that the agent needs", async () => {
    await exec("runtime", "dd", "if=/dev/zero", "of=/etc/hosts", "bs=1M", "count=16");
    const size = await machine("wc", "-c", "/machine/var/lib/itzo/pod/hosts");
    assert.match(size, /^16777216 /);
  });

  it("CVE-2020-8558: is on a machine that takes nothing from its neighbours for 127.0.0.1", async () => {
    for (const name of ["all", "default"])
      assert.equal(await machine("cat", `/proc/sys/net/ipv4/conf/${name}/route_localnet`), "0");
  });

  it("CVE-2019-1002101: writes nothing outside of the folder that is copied to", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "kip-e2e-copy-"));
    try {
      chmodSync(folder, 0o700);
      // kubectl may print anything about the archive.
      await kube.kubectl("cp", "escapes:/loot", path.join(folder, "inside"), "-c", "runtime");
      assert.ok(!existsSync(path.join(folder, "outside")));
      assert.deepEqual(
        readdirSync(folder).filter((name) => name !== "inside"),
        [],
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
