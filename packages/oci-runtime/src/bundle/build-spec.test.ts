import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ContainerSpec } from "../contract/container-spec.ts";
import { buildSpec } from "./build-spec.ts";
import type { MachineFacts } from "./machine-facts.ts";
import type { OciDevice } from "./oci-spec.ts";
import { chooseCapabilities, defaultCapabilities } from "./capabilities.ts";

const machine: MachineFacts = {
  capabilities: [...defaultCapabilities, "CAP_SYS_ADMIN"],
  openFilesLimit: 20_000,
  maskedPaths: [],
};
const devices: readonly OciDevice[] = [
  { path: "/dev/fuse", type: "c", major: 10, minor: 229, fileMode: 0o666, uid: 0, gid: 0 },
];

const plain: ContainerSpec = {
  id: "web-0",
  sandbox: {
    name: "pod",
    hostname: "web",
    networkNamespace: "/run/netns/pod",
    ipcNamespace: "/run/kip/ipc",
    utsNamespace: "/run/kip/uts",
    sharedMemoryDir: "/dev/shm/kip-pod",
    cgroupParent: "/kip/pod",
  },
  rootfs: "/rootfs",
  args: ["nginx"],
  env: ["A=b"],
  cwd: "/",
  user: { uid: 0, gid: 0, additionalGids: [] },
  tty: false,
  stdin: "closed",
  mounts: [],
  logDirectory: "/var/log/web-0.log",
};

describe("buildSpec()", () => {
  it("has a pod's own users where it has some, and all of /proc where that is wanted", () => {
    const userNamespace = { file: "/run/kip/user", firstId: 65_536, idCount: 65_536 };
    const sandbox = { ...plain.sandbox, userNamespace };
    const { linux } = buildSpec({ ...plain, sandbox, isProcUnmasked: true }, machine);
    assert.deepEqual(linux.namespaces[2], { type: "user", path: "/run/kip/user" });
    const mapping = [{ containerID: 0, hostID: 65_536, size: 65_536 }];
    assert.deepEqual([linux.uidMappings, linux.gidMappings], [mapping, mapping]);
    assert.deepEqual([linux.maskedPaths, linux.readonlyPaths], [[], []]);
    const usual = buildSpec(plain, { ...machine, maskedPaths: ["/sys/hot"] }).linux;
    assert.equal("uidMappings" in usual, false);
    assert.ok(usual.maskedPaths.includes("/sys/hot"));
  });

  it("connects the container's mounts with the machine's as far as a mount wants that", () => {
    const of = (...options: readonly string[][]) => {
      const mounts = options.map((each, index) => ({
        source: "/data",
        destination: `/data-${index}`,
        readOnly: false,
        options: each,
      }));
      const { linux, mounts: made } = buildSpec({ ...plain, mounts }, machine);
      return [linux.rootfsPropagation, ...made.slice(-options.length).map((one) => one.options)];
    };
    assert.deepEqual(of([]), [undefined, ["rbind", "rprivate", "rw"]]);
    assert.deepEqual(of(["rslave"], []), [
      "rslave",
      ["rbind", "rw", "rslave"],
      ["rbind", "rprivate", "rw"],
    ]);
    assert.equal(of(["rslave"], ["rshared"])[0], "rshared");
  });

  it("gives a container devices with a rule for each, and hooks by their kind", () => {
    const card = { path: "/dev/card", type: "c", major: 10, minor: 200 } as const;
    const owner = { fileMode: 0o666, uid: 0, gid: 0 };
    const made = buildSpec(
      {
        ...plain,
        devices: [{ ...card, ...owner, access: "rw" }],
        hooks: [
          { kind: "createContainer", path: "/bin/a", args: ["a"] },
          { kind: "poststop", path: "/bin/b", timeout: 5 },
          { kind: "createContainer", path: "/bin/c" },
        ],
      },
      machine,
    );
    assert.deepEqual(made.linux.devices, [{ ...card, ...owner }]);
    assert.deepEqual(made.linux.resources.devices, [
      { allow: false, access: "rwm" },
      { allow: true, type: "c", major: 10, minor: 200, access: "rw" },
    ]);
    assert.deepEqual(made.hooks, {
      createContainer: [{ path: "/bin/a", args: ["a"] }, { path: "/bin/c" }],
      poststop: [{ path: "/bin/b", timeout: 5 }],
    });
    assert.equal(buildSpec(plain, machine).hooks, undefined);
    const fuse = [{ ...card, ...owner, path: "/dev/fuse", access: "rw" }];
    const privileged = buildSpec({ ...plain, privileged: true, devices: fuse }, machine, devices);
    assert.deepEqual(
      privileged.linux.devices.map(({ path, minor }) => `${path} ${minor}`),
      ["/dev/fuse 200"],
    );
  });

  it("has the resource limits of containerd, as far as the machine has them", () => {
    const limits = (capabilities: readonly string[]): readonly string[] =>
      buildSpec(plain, { ...machine, capabilities }).process.rlimits.map(
        ({ type, soft, hard }) => `${type} ${soft} ${hard}`,
      );
    assert.deepEqual(limits([]), ["RLIMIT_NOFILE 1024 20000"]);
    assert.deepEqual(limits(["CAP_SYS_RESOURCE"]), [
      "RLIMIT_NOFILE 1024 20000",
      "RLIMIT_NPROC -1 -1",
      "RLIMIT_CORE -1 -1",
    ]);
  });

  it("takes a profile of system calls as it is, and none for a privileged container", () => {
    const profile = { defaultAction: "SCMP_ACT_ALLOW" };
    const seccomp = { profile: JSON.stringify(profile) };
    assert.deepEqual(buildSpec({ ...plain, seccomp }, machine).linux.seccomp, profile);
    const privileged = buildSpec({ ...plain, seccomp, privileged: true }, machine);
    assert.equal(privileged.linux.seccomp, undefined);
  });

  it("gives a plain container the usual rights, its own cgroup and the pod's namespaces", () => {
    const spec = buildSpec(plain, machine);
    assert.deepEqual(spec.process.capabilities.bounding, [...defaultCapabilities].sort());
    assert.equal("inheritable" in spec.process.capabilities, false);
    assert.equal("ambient" in spec.process.capabilities, false);
    assert.equal(spec.linux.cgroupsPath, "/kip/pod/web-0");
    assert.equal(spec.hostname, "web");
    assert.deepEqual(spec.linux.namespaces, [
      { type: "mount" },
      { type: "cgroup" },
      { type: "pid" },
      { type: "ipc", path: "/run/kip/ipc" },
      { type: "uts", path: "/run/kip/uts" },
      { type: "network", path: "/run/netns/pod" },
    ]);
    assert.deepEqual(spec.linux.resources, {
      devices: [{ allow: false, access: "rwm" }],
      unified: { "memory.oom.group": "1" },
    });
    assert.ok(spec.linux.maskedPaths.includes("/proc/kcore"));
    assert.ok(spec.linux.readonlyPaths.includes("/proc/sys"));
    assert.deepEqual(spec.process.rlimits, [{ type: "RLIMIT_NOFILE", soft: 1024, hard: 20_000 }]);
    const sys = spec.mounts.find((mount) => mount.destination === "/sys");
    assert.ok(sys?.options.includes("ro"));
  });

  it("gives a host-network container the machine's network and host name", () => {
    const { networkNamespace: _net, utsNamespace: _uts, ...sandbox } = plain.sandbox;
    const spec = buildSpec({ ...plain, sandbox }, machine);
    assert.equal(spec.hostname, undefined);
    assert.deepEqual(
      spec.linux.namespaces.map((namespace) => namespace.type),
      ["mount", "cgroup", "pid", "ipc"],
    );
  });

  it("names path and host in the environment unless the container does", () => {
    assert.deepEqual(buildSpec(plain, machine).process.env, [
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      "HOSTNAME=web",
      "A=b",
    ]);
    const own = buildSpec({ ...plain, tty: true, env: ["PATH=/x", "TERM=vt100"] }, machine);
    assert.deepEqual(own.process.env, ["HOSTNAME=web", "PATH=/x", "TERM=vt100"]);
  });

  it("filters system calls by the container's own capabilities, unless it is privileged", () => {
    const seccomp = "RuntimeDefault";
    const allows = (more: Partial<ContainerSpec>, call: string): boolean | undefined =>
      buildSpec({ ...plain, ...more }, machine).linux.seccomp?.syscalls.some(
        ({ names, action }) => action === "SCMP_ACT_ALLOW" && names.includes(call),
      );
    assert.equal(allows({}, "mount"), undefined);
    assert.equal(allows({ seccomp }, "mount"), false);
    assert.equal(allows({ seccomp, addCapabilities: ["SYS_ADMIN"] }, "mount"), true);
    assert.equal(allows({ seccomp, privileged: true }, "mount"), undefined);
  });

  it("gives a privileged container everything, and hides nothing", () => {
    const spec = buildSpec(
      { ...plain, privileged: true, allowPrivilegeEscalation: false },
      machine,
      devices,
    );
    assert.deepEqual(spec.process.capabilities.bounding, [...machine.capabilities].sort());
    assert.deepEqual(spec.linux.devices, devices);
    assert.deepEqual(buildSpec(plain, machine, devices).linux.devices, []);
    assert.deepEqual(spec.linux.maskedPaths, []);
    assert.deepEqual(spec.linux.resources.devices, [{ allow: true, access: "rwm" }]);
    assert.equal(spec.process.noNewPrivileges, false);
  });

  it("turns limits into the kubelet's cgroup values", () => {
    const { resources } = buildSpec(
      { ...plain, resources: { cpuMilliLimit: 1500, cpuMilliRequest: 250, memoryBytesLimit: 1e8 } },
      machine,
    ).linux;
    assert.deepEqual(resources.cpu, { quota: 150_000, period: 100_000 });
    assert.deepEqual(resources.memory, { limit: 1e8 });
    assert.deepEqual(resources.unified, { "memory.oom.group": "1", "cpu.weight": "10" });
  });

  it("raises tiny requests to what the kernel takes", () => {
    const { resources } = buildSpec(
      { ...plain, resources: { cpuMilliLimit: 1, cpuMilliRequest: 0 } },
      machine,
    ).linux;
    assert.deepEqual(resources.cpu, { quota: 1000, period: 100_000 });
    assert.equal(resources.unified["cpu.weight"], "1");
  });

  it("mounts parents first, and has mounts replace the usual ones", () => {
    const { mounts } = buildSpec(
      {
        ...plain,
        mounts: [
          { source: "/v/deep", destination: "/data/a/b", readOnly: true },
          { source: "/v", destination: "/data", readOnly: false, options: ["rslave"] },
          {
            type: "tmpfs",
            source: "",
            destination: "/dev/shm",
            readOnly: false,
            options: ["size=1g"],
          },
        ],
      },
      machine,
    );
    assert.equal(mounts.filter((mount) => mount.destination === "/dev/shm").length, 1);
    assert.deepEqual(mounts.slice(-3), [
      { destination: "/data", type: "bind", source: "/v", options: ["rbind", "rw", "rslave"] },
      {
        destination: "/dev/shm",
        type: "tmpfs",
        source: "tmpfs",
        options: ["nosuid", "nodev", "rw", "size=1g"],
      },
      {
        destination: "/data/a/b",
        type: "bind",
        source: "/v/deep",
        options: ["rbind", "rprivate", "ro"],
      },
    ]);
  });
});

describe("chooseCapabilities()", () => {
  it("adds and drops by name and all at once", () => {
    const choose = (add: string[], drop: string[]): readonly string[] =>
      chooseCapabilities({ privileged: false, add, drop, available: machine.capabilities });
    assert.deepEqual(choose(["net_bind_service"], ["ALL"]), ["CAP_NET_BIND_SERVICE"]);
    assert.deepEqual(choose(["ALL"], []), [...machine.capabilities].sort());
    assert.ok(!choose(["ALL"], ["CAP_SYS_ADMIN"]).includes("CAP_SYS_ADMIN"));
    assert.ok(!choose([], ["net_raw"]).includes("CAP_NET_RAW"));
    assert.ok(!choose(["SYS_ADMIN"], ["SYS_ADMIN"]).includes("CAP_SYS_ADMIN"));
    assert.deepEqual(choose(["ALL"], ["ALL"]), []);
    assert.throws(() => choose(["NET_ADMN"], []), {
      code: "CAPABILITY_UNKNOWN",
      remedy: "Did you mean NET_ADMIN?",
    });
  });
});
