import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { defaultCapabilities } from "./capabilities.ts";
import type { OciSystemCall } from "./oci-spec.ts";
import { runtimeDefaultSeccomp } from "./seccomp-profile.ts";
import {
  allowedCalls,
  callsOfCapabilities,
  callsOfProcessors,
  forbiddenCalls,
} from "./system-calls.ts";

/** The calls that containerd allows for a processor's programs. */
interface TheirCalls {
  readonly architectures: readonly string[];
  readonly always: readonly string[];
  /** Rules that depend on arguments. */
  readonly conditional: readonly string[];
  readonly byCapability: Readonly<Record<string, readonly string[]>>;
}

const table = new URL("../../test/containerd-calls.json", import.meta.url);
// Written by tools/generate-seccomp-table.ts.
const { amd64, arm64 } = JSON.parse(readFileSync(table, "utf8")) as {
  readonly amd64: TheirCalls;
  readonly arm64: TheirCalls;
};

function isPlainPermission({ action, args = [] }: OciSystemCall): boolean {
  return action === "SCMP_ACT_ALLOW" && args.length === 0;
}

/** The result of a call whose arguments do not matter: `allow` or the error number. */
function verdict(call: string, capabilities: readonly string[]): string | number {
  const { syscalls, defaultErrnoRet } = runtimeDefaultSeccomp(capabilities);
  const rules = syscalls.filter(
    ({ names, args = [] }) => names.includes(call) && args.length === 0,
  );
  assert.ok(rules.length < 2, call);
  const [rule] = rules;
  if (!rule) return defaultErrnoRet;
  return rule.action === "SCMP_ACT_ALLOW" ? "allow" : (rule.errnoRet ?? -1);
}

describe("runtimeDefaultSeccomp()", () => {
  const [EPERM, ENOSYS] = [1, 38];

  it("allows by capability what the profile names, and denies the rest", () => {
    for (const call of ["read", "openat", "execve", "ptrace", "futex", "chroot", "clock_adjtime"])
      assert.equal(verdict(call, defaultCapabilities), "allow", call);
    for (const call of [
      "mount",
      "bpf",
      "keyctl",
      "kexec_load",
      "reboot",
      "io_uring_setup",
      "mbind",
    ])
      assert.equal(verdict(call, defaultCapabilities), EPERM, call);
    const withAdmin = [...defaultCapabilities, "CAP_SYS_ADMIN"];
    for (const call of ["mount", "bpf", "clone", "clone3", "setns"])
      assert.equal(verdict(call, withAdmin), "allow", call);
    for (const call of ["keyctl", "reboot"]) assert.equal(verdict(call, withAdmin), EPERM, call);
    assert.equal(verdict("chroot", []), EPERM);
    assert.equal(verdict("reboot", ["CAP_SYS_BOOT"]), "allow");
  });

  it("says of newer calls that there are none, so that libraries use older ones", () => {
    assert.equal(verdict("clone3", defaultCapabilities), ENOSYS);
    assert.equal(verdict("mseal", defaultCapabilities), ENOSYS);
  });

  it("lets a process be cloned, but no namespace be made, without CAP_SYS_ADMIN", () => {
    const rules = runtimeDefaultSeccomp(defaultCapabilities).syscalls.filter(({ names }) =>
      names.includes("clone"),
    );
    const outcome = (flags: number): string | undefined =>
      rules.find(({ args: [arg] = [] }) => arg && (flags & arg.value) >>> 0 === arg.valueTwo)
        ?.action;
    assert.equal(outcome(0x11), "SCMP_ACT_ALLOW");
    for (const flag of [
      0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000,
    ])
      assert.equal(outcome(0x11 | flag), "SCMP_ACT_ERRNO", flag.toString(16));
  });

  it("has no sockets to the machine's host", () => {
    const rules = runtimeDefaultSeccomp([]).syscalls.filter(({ names }) =>
      names.includes("socket"),
    );
    assert.deepEqual(
      rules.map(({ action, args: [arg] = [] }) => [action, arg?.op, arg?.value]),
      [
        ["SCMP_ACT_ALLOW", "SCMP_CMP_NE", 40],
        ["SCMP_ACT_ERRNO", "SCMP_CMP_EQ", 40],
      ],
    );
  });

  it("allows what containerd's profile does, for each processor and capability", () => {
    for (const [processor, theirs] of Object.entries({ x64: amd64, arm64 })) {
      const capabilities = ["", ...Object.keys(theirs.byCapability)];
      assert.deepEqual(
        [...callsOfCapabilities.keys()].filter((name) => !capabilities.includes(name)),
        [],
      );
      for (const capability of capabilities) {
        const given = capability === "" ? [] : [capability];
        const profile = runtimeDefaultSeccomp(given, processor);
        const more = theirs.byCapability[capability] ?? [];
        const plain = profile.syscalls.filter(isPlainPermission).flatMap(({ names }) => names);
        assert.deepEqual(plain.sort(), [...theirs.always, ...more].sort(), capability);
        assert.deepEqual([...profile.architectures].sort(), theirs.architectures);
      }
      const withArguments = runtimeDefaultSeccomp([], processor).syscalls.filter(
        ({ action, args = [] }) => action === "SCMP_ACT_ALLOW" && args.length > 0,
      );
      const conditions = withArguments.map(
        ({ names, args = [] }) =>
          `${names.join()}: ${args.map(({ index, op, value }) => `${index} ${op} ${value}`).join()}`,
      );
      assert.deepEqual(conditions.sort(), theirs.conditional);
    }
  });

  it("names no call twice", () => {
    const byProcessor = Object.values(callsOfProcessors).flat();
    const lists = [
      [...allowedCalls, ...byProcessor],
      forbiddenCalls,
      [...callsOfCapabilities.values()].flat(),
    ];
    for (const list of lists.slice(0, 2)) assert.equal(new Set(list).size, list.length);
    const [allowed = [], forbidden = [], conditional = []] = lists;
    const others = new Set([...forbidden, ...conditional]);
    assert.deepEqual(
      allowed.filter((name) => others.has(name)),
      [],
    );
    assert.deepEqual(
      forbidden.filter((name) => conditional.includes(name)),
      [],
    );
  });
});
