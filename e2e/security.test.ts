// Security contexts on real machines: user namespaces, masked parts of /proc, and seccomp profiles. The containers themselves
// report what they may do.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { cluster, eventually, stateDir, type Cluster } from "./cluster.ts";

const image = "kip.local/demo:latest";
const sleeps = ["sleep", "100000"];
const pod = (name: string, spec: object): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: { terminationGracePeriodSeconds: 0, ...spec },
});

/** Volumes of each kind. All containers mount them. */
const volumes = [
  { name: "files", configMap: { name: "settings" } },
  { name: "disk", emptyDir: {} },
  { name: "memory", emptyDir: { medium: "Memory" } },
  { name: "machine", hostPath: { path: "/var/tmp" } },
];
const volumeMounts = [
  ...volumes.map(({ name }) => ({ name, mountPath: `/${name}` })),
  { name: "disk", mountPath: "/part", subPath: "part" },
  { name: "memory", mountPath: "/piece", subPath: "pie/ce" },
];

const ownUsers = pod("users", {
  hostUsers: false,
  shareProcessNamespace: true,
  securityContext: {
    fsGroup: 2000,
    sysctls: [{ name: "net.ipv4.ip_unprivileged_port_start", value: "79" }],
  },
  volumes,
  initContainers: [
    {
      name: "first",
      image,
      command: ["sh", "-c", "echo from $(id -u) >/dev/termination-log"],
    },
  ],
  containers: [
    {
      name: "main",
      image,
      command: ["sh", "-c", "echo ready >/index.html; exec httpd -f -p 8080 -h /"],
      readinessProbe: { httpGet: { path: "/index.html", port: 8080 }, periodSeconds: 1 },
      volumeMounts,
    },
    {
      name: "user",
      image,
      command: sleeps,
      securityContext: { runAsUser: 1000, runAsGroup: 1000, runAsNonRoot: true },
      volumeMounts,
    },
  ],
});

const unmasked = pod("unmasked", {
  hostUsers: false,
  containers: [
    { name: "default", image, command: sleeps },
    {
      name: "unmasked",
      image,
      command: sleeps,
      securityContext: { procMount: "Unmasked", capabilities: { add: ["NET_ADMIN"] } },
    },
    { name: "privileged", image, command: sleeps, securityContext: { privileged: true } },
  ],
});

const localhost = (localhostProfile: string): object => ({
  seccompProfile: { type: "Localhost", localhostProfile },
});
const profiles = pod("profiles", {
  containers: [
    { name: "denied", image, command: sleeps, securityContext: localhost("test/no-folders.json") },
    { name: "late", image, command: sleeps, securityContext: localhost("test/late.json") },
    { name: "plain", image, command: sleeps },
    {
      name: "strict",
      image,
      command: sleeps,
      securityContext: {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"], add: ["NET_BIND_SERVICE"] },
      },
    },
    { name: "privileged", image, command: sleeps, securityContext: { privileged: true } },
    { name: "root", image, command: sleeps, securityContext: { runAsNonRoot: true } },
  ],
});

/** Writes a profile in which all calls except these are allowed. */
function writeProfile(name: string, ...names: readonly string[]): void {
  const file = path.join(stateDir, "seccomp/test", name);
  mkdirSync(path.dirname(file), { recursive: true });
  const syscalls = [{ names, action: "SCMP_ACT_ERRNO", errnoRet: 1 }];
  writeFileSync(file, JSON.stringify({ defaultAction: "SCMP_ACT_ALLOW", syscalls }));
}

describe("the security context of a container", () => {
  let kube: Cluster;
  before(async () => {
    kube = await cluster("security");
    await kube.ok("create", "configmap", "settings", "--from-literal=color=blue");
    rmSync(path.join(stateDir, "seccomp/test"), { recursive: true, force: true });
    writeProfile("no-folders.json", "mkdir", "mkdirat");
    await kube.apply(ownUsers, unmasked, profiles);
    for (const name of ["users", "unmasked"])
      await kube.ok("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=300s");
  });
  after(async () => {
    await kube.kubectl("delete", "pod", "--all", "--wait=false");
  });

  const exec = async (name: string, container: string, script: string): Promise<string> =>
    (await kube.ok("exec", name, "-c", container, "--", "sh", "-c", script)).trim();

  it("with hostUsers false is root only for itself, and owns its files, volumes and network", async () => {
    const map = await exec("users", "main", "cat /proc/self/uid_map /proc/self/gid_map");
    assert.deepEqual(map.split(/\s+/).filter(Boolean), "0 65536 65536 0 65536 65536".split(" "));
    const message = "jsonpath={.status.initContainerStatuses[0].state.terminated.message}";
    assert.equal((await kube.ok("get", "pod", "users", "-o", message)).trim(), "from 0");
    const owner = async (container: string, ...files: readonly string[]): Promise<string> =>
      (await exec("users", container, `stat -c %u:%g ${files.join(" ")}`)).replaceAll("\n", " ");
    assert.equal(await owner("main", "/", "/bin", "/etc/hosts", "/index.html"), "0:0 0:0 0:0 0:0");
    assert.equal(
      await owner("main", "/disk", "/memory", "/part", "/piece", "/machine"),
      "0:2000 0:2000 0:2000 0:2000 0:0",
    );
    assert.equal(
      await owner("main", "/files", "/files/..data", "/files/..data/color"),
      "0:0 0:0 0:2000",
    );
    assert.equal(await exec("users", "user", "cat /files/color; id -u"), "blue1000");
    await exec("users", "user", "for f in disk memory part; do echo x >/$f/new || exit 1; done");
    assert.equal(
      await owner("main", "/disk/new", "/memory/new", "/part/new"),
      "1000:2000 1000:2000 1000:2000",
    );
    await exec(
      "users",
      "main",
      "chown 3:4 /disk/new; echo x >/machine/new; chown 5:6 /machine/new",
    );
    assert.equal(await owner("user", "/disk/new", "/machine/new"), "3:4 5:6");
    assert.equal(
      await exec("users", "main", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start"),
      "79",
    );
    assert.equal(await exec("users", "main", "cat /proc/1/comm"), "pause");
    // The first process of their process namespace also has another user ID, and no capabilities.
    assert.match(
      await exec("users", "main", "grep -E '^(Uid|CapBnd)' /proc/1/status"),
      /^Uid:\s+65535\s.*\nCapBnd:\s+0{16}$/s,
    );
  });

  it("with procMount Unmasked has all of /proc, as it is", async () => {
    const ttl = "/proc/sys/net/ipv4/ip_default_ttl";
    const mounts = `grep -c ' /proc/' /proc/self/mountinfo; { echo 7 >${ttl}; } 2>&1; cat ${ttl}`;
    assert.match(
      await exec("unmasked", "default", mounts),
      /^[1-9]\d*\n.*Read-only file system\n64$/,
    );
    assert.equal(await exec("unmasked", "unmasked", mounts), "0\n7");
    // What only the machine's root may see stays hidden.
    const memory = "head -c 1 /proc/kcore 2>&1; true";
    assert.match(await exec("unmasked", "unmasked", memory), /denied|not permitted/);
    const caches = "cat /proc/self/uid_map; { echo 1 >/proc/sys/vm/drop_caches; } 2>&1; true";
    assert.match(await exec("unmasked", "privileged", caches), /65536\s+65536\n.*denied$/);
  });

  const waiting = async (container: string): Promise<string> => {
    const state = `{.status.containerStatuses[?(@.name=='${container}')].state.waiting}`;
    return await kube.ok("get", "pod", "profiles", "-o", `jsonpath=${state}`);
  };

  it("with a Localhost profile may call what that says, and waits for a profile that is missing", async () => {
    const file = path.join(stateDir, "seccomp/test/late.json");
    const words = `cannot load seccomp profile \\"${file}\\": open ${file}: no such file or directory`;
    await eventually("the container without a profile to be refused", async () => {
      const state = await waiting("late");
      return state.includes("CreateContainerError") && state.includes(words);
    });
    await eventually(
      "the container with a profile to run",
      async () => (await waiting("denied")) === "",
    );
    const { stderr } = await kube.kubectl("exec", "profiles", "-c", "denied", "--", "mkdir", "/a");
    assert.match(stderr, /Operation not permitted/);
    await exec("profiles", "denied", "touch /a; rm /a");
    assert.match(await exec("profiles", "denied", "cat /proc/1/status"), /^Seccomp:\s*2$/m);
    writeProfile("late.json", "chmod", "fchmodat");
    await eventually(
      "the container to start, now that its profile is there",
      async () => (await waiting("late")) === "",
      180_000,
    );
    assert.match(await exec("profiles", "late", "chmod 777 /bin 2>&1; mkdir /a"), /not permitted/);
  });

  it("without any is containerd's: capabilities, limits, devices, hidden and read-only paths", async () => {
    const sets = async (container: string): Promise<string> => {
      const status = await exec("profiles", container, "cat /proc/1/status");
      const fields = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"];
      return fields
        .map((field) => new RegExp(`^${field}:\\s*(\\w+)$`, "m").exec(status)?.[1])
        .join(" ");
    };
    const [none, usual] = ["0000000000000000", "00000000a80425fb"];
    assert.equal(await sets("plain"), `${none} ${usual} ${usual} ${usual} ${none} 0 0`);
    const bind = "0000000000000400";
    assert.equal(await sets("strict"), `${none} ${bind} ${bind} ${bind} ${none} 1 0`);
    assert.equal(await sets("privileged"), `${none} ${"000001ffffffffff ".repeat(3)}${none} 0 0`);
    const limits = await exec("profiles", "plain", "cat /proc/1/limits");
    assert.match(limits, /^Max open files +1024 +524288 /m);
    assert.match(limits, /^Max processes +unlimited +unlimited /m);
    assert.match(limits, /^Max core file size +unlimited +unlimited /m);
    assert.equal(
      await exec("profiles", "plain", "ls /dev | tr '\\n' ' '"),
      "core fd full mqueue null ptmx pts random shm stderr stdin stdout termination-log tty urandom zero",
    );
    const disk = "cat /sys/class/block/vda/dev | tr : ' '";
    const opened = await exec(
      "profiles",
      "plain",
      `mknod /disk b $(${disk}) && head -c 1 /disk 2>&1 || true`,
    );
    assert.match(opened, /Operation not permitted/);
    await exec("profiles", "privileged", `mknod /disk b $(${disk}) && head -c 1 /disk >/dev/null`);
    const hidden =
      "cat /proc/kcore /proc/keys /proc/timer_list 2>/dev/null | wc -c; ls -A /sys/firmware | wc -l";
    assert.equal((await exec("profiles", "plain", hidden)).replaceAll(/\s+/g, " "), "0 0");
    const write =
      "for f in sys/vm/swappiness sysrq-trigger; do { echo 1 >/proc/$f; } 2>&1; done; touch /sys/x 2>&1; true";
    const refusals = (await exec("profiles", "plain", write)).split("\n");
    assert.equal(refusals.filter((line) => line.includes("Read-only file system")).length, 3);
    assert.match(await exec("profiles", "strict", "touch /x 2>&1; true"), /Read-only file system/);
    await exec("profiles", "privileged", "cat /proc/sys/vm/swappiness >/proc/sys/vm/swappiness");
    const root = await waiting("root");
    assert.match(root, /CreateContainerConfigError/);
    assert.match(
      root,
      /container has runAsNonRoot and image will run as root \(pod: \\"profiles_security\(/,
    );
  });
});
