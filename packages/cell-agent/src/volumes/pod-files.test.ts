import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { hostname } from "node:os";
import path from "node:path";
import { describe, it } from "node:test";
import type { DesiredPod } from "@kip/agent-api";
import { temporaryFolder } from "@kip/testing";
import { agentDirectories } from "../storage/agent-directories.ts";
import { writePodFiles } from "./pod-files.ts";

const pod = {
  etcHosts: "127.0.0.1 localhost\n",
  hostname: "web",
  resolvConf: "nameserver 192.0.2.1\n",
} as unknown as DesiredPod; // the fields that are read

describe("writePodFiles()", () => {
  it("CVE-2020-8557: whatever a container has written to its /etc/hosts, the agent does not read it", () => {
    using folder = temporaryFolder();
    const hosts = writePodFiles(folder.path, pod).get("/etc/hosts") ?? "";
    const { ino } = fs.statSync(hosts);
    fs.truncateSync(hosts, 2 ** 40); // larger than any memory, without using disk space
    writePodFiles(folder.path, pod);
    assert.equal(fs.readFileSync(hosts, "utf8"), pod.etcHosts);
    // It is the same file, because it is mounted.
    assert.equal(fs.statSync(hosts).ino, ino);
  });

  it("gives a pod with the cell's network the cell's own hosts behind the header", () => {
    using folder = temporaryFolder();
    const own = path.join(folder.path, "own");
    const etcHosts = "# header\n\n# aliases\n10.0.0.1\ta\n";
    const hosts = (hostNetwork: boolean): string => {
      const files = writePodFiles(
        path.join(folder.path, "pod"),
        { ...pod, etcHosts, hostNetwork },
        own,
      );
      return fs.readFileSync(files.get("/etc/hosts") ?? "", "utf8");
    };
    fs.writeFileSync(own, "10.9.9.9 cell");
    assert.equal(hosts(true), "# header\n10.9.9.9 cell\n\n# aliases\n10.0.0.1\ta\n");
    assert.equal(hosts(false), etcHosts);
    // A container that can reach it has made it large.
    fs.truncateSync(own, 2 ** 40);
    assert.match(hosts(true), /^# header\n127.0.0.1\tlocalhost\n::1\tlocalhost\n\n# aliases/);
  });

  it("gives a pod with the cell's network the cell's name, which its kernel has", () => {
    using folder = temporaryFolder();
    const name = (hostNetwork: boolean): string => {
      const files = writePodFiles(folder.path, { ...pod, hostNetwork });
      return fs.readFileSync(files.get("/etc/hostname") ?? "", "utf8");
    };
    assert.equal(name(true), `${hostname()}\n`);
    assert.equal(name(false), "web\n");
  });

  it("does not wait for a container that has a lease on its /etc/hosts", async () => {
    using folder = temporaryFolder();
    const hosts = writePodFiles(folder.path, pod).get("/etc/hosts") ?? "";
    fs.chmodSync(hosts, 0o600);
    // F_SETLEASE with F_WRLCK, and again after each break.
    const script = `$SIG{IO} = "IGNORE"; $| = 1; open(my $f, "+<", $ARGV[0]) or die $!;
      fcntl($f, 1024, 1) or die $!; print "held\\n"; sleep 60;`;
    const holder = spawn("perl", ["-e", script, hosts], { stdio: ["ignore", "pipe", "inherit"] });
    try {
      await once(holder.stdout, "data");
      const begin = performance.now();
      writePodFiles(folder.path, pod); // nothing has changed, but that cannot be known
      writePodFiles(folder.path, { ...pod, etcHosts: "127.0.0.1 other\n" });
      assert.ok(performance.now() - begin < 10_000);
      assert.equal(fs.readFileSync(hosts, "utf8"), "127.0.0.1 other\n");
      assert.equal(fs.statSync(hosts).mode & 0o777, 0o600);
      assert.deepEqual(fs.readdirSync(folder.path).toSorted(), [
        "hostname",
        "hosts",
        "resolv.conf",
      ]);
    } finally {
      holder.kill("SIGKILL");
    }
  });

  it("writes nothing where nothing changed", () => {
    using folder = temporaryFolder();
    const files = writePodFiles(folder.path, pod);
    const times = () => [...files.values()].map((file) => fs.statSync(file).mtimeMs);
    for (const file of files.values()) fs.utimesSync(file, 1, 1);
    writePodFiles(folder.path, pod);
    assert.deepEqual(times(), [1000, 1000, 1000]);
  });
});

describe("agentDirectories()", () => {
  it("CVE-2020-8557: what containers write to is on the disk or on a tmpfs of its own, never beside the agent's state", () => {
    const { run, ...places } = agentDirectories("/state", "/run");
    const written = ["podFiles", "containers", "diskVolumes", "logs", "images"] as const;
    for (const name of written) assert.ok(places[name].startsWith("/state/"), name);
    for (const name of ["desiredPod", "podState", "identity"] as const)
      assert.equal(path.dirname(places[name]), run, name);
  });
});
