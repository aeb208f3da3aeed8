import type { OciSeccomp, OciSystemCall } from "./oci-spec.ts";
import {
  allowedCalls,
  callsOfCapabilities,
  callsOfProcessors,
  forbiddenCalls,
} from "./system-calls.ts";

/** The kernel's error numbers (errno.h). */
const notPermitted = 1;
const notImplemented = 38;

/**
 * The architectures of programs that a processor can run, by Node's name of the processor. The values are libseccomp's names.
 */
const architectures: Readonly<Record<string, readonly string[]>> = {
  x64: ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
  arm64: ["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
};

/** Address family of sockets between a virtual machine and its host (linux/socket.h). */
const vsock = 40;

/** Flags of clone(2) that create namespaces: mounts, cgroups, host name, IPC, users, processes, network. */
const namespaceFlags: readonly number[] = [
  0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000,
];
const allNamespaces = namespaceFlags.reduce((sum, flag) => sum + flag, 0);

/** Harmless arguments of personality(2): Linux, 32 bits, old versions of uname(2), a query. */
const personalities: readonly number[] = [0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/**
 * The system calls that a container with these capabilities may make. The effect is that of containerd's default profile:
 * listed calls are allowed, and known calls that are not listed fail with EPERM. As in runc, calls that are newer than the list
 * fail with ENOSYS, so that C libraries fall back to older calls. EPERM would break them.
 *
 * @param processor Node's name of the machine's processor. @default this machine's
 * @see https://docs.docker.com/engine/security/seccomp/#significant-syscalls-blocked-by-the-default-profile
 */
export function runtimeDefaultSeccomp(
  capabilities: readonly string[],
  processor: string = process.arch,
): OciSeccomp {
  const granted = capabilities.flatMap((name) => callsOfCapabilities.get(name) ?? []);
  const allowed = new Set([...allowedCalls, ...(callsOfProcessors[processor] ?? []), ...granted]);
  const conditional = [...callsOfCapabilities.values()].flat();
  const denied = [...new Set([...forbiddenCalls, ...conditional])].filter(
    // Without CAP_SYS_ADMIN, clone is allowed depending on its flags. A filter cannot read the flags of clone3, so that call is
    // treated as missing.
    (name) => !allowed.has(name) && name !== "clone" && name !== "clone3",
  );
  return {
    defaultAction: "SCMP_ACT_ERRNO",
    defaultErrnoRet: notImplemented,
    architectures: architectures[processor] ?? [],
    syscalls: [
      allow([...allowed]),
      deny(denied),
      ...personalities.map((value) => allow(["personality"], equal(value))),
      allow(["socket"], { index: 0, value: vsock, op: "SCMP_CMP_NE" }),
      deny(["socket"], equal(vsock)),
      ...(allowed.has("clone") ? [] : cloneRules()),
    ],
  };
}

function cloneRules(): readonly OciSystemCall[] {
  const masked = (value: number, valueTwo: number): Argument => ({
    index: 0,
    value,
    valueTwo,
    op: "SCMP_CMP_MASKED_EQ",
  });
  return [
    allow(["clone"], masked(allNamespaces, 0)),
    ...namespaceFlags.map((flag) => deny(["clone"], masked(flag, flag))),
  ];
}

type Argument = NonNullable<OciSystemCall["args"]>[number];

function equal(value: number): Argument {
  return { index: 0, value, op: "SCMP_CMP_EQ" };
}

function allow(names: readonly string[], ...args: readonly Argument[]): OciSystemCall {
  return { names, action: "SCMP_ACT_ALLOW", args };
}

function deny(names: readonly string[], ...args: readonly Argument[]): OciSystemCall {
  return { names, action: "SCMP_ACT_ERRNO", errnoRet: notPermitted, args };
}
