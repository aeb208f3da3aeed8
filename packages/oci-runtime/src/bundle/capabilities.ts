import { readFile } from "node:fs/promises";
import { nearest } from "@kip/base";
import { RuntimeError } from "../errors.ts";

/** The default capabilities of a container, the same as in containerd and CRI-O. */
export const defaultCapabilities: readonly string[] = [
  "CAP_AUDIT_WRITE",
  "CAP_CHOWN",
  "CAP_DAC_OVERRIDE",
  "CAP_FOWNER",
  "CAP_FSETID",
  "CAP_KILL",
  "CAP_MKNOD",
  "CAP_NET_BIND_SERVICE",
  "CAP_NET_RAW",
  "CAP_SETFCAP",
  "CAP_SETGID",
  "CAP_SETPCAP",
  "CAP_SETUID",
  "CAP_SYS_CHROOT",
];

/** All capabilities of Linux by their number (linux/capability.h). */
const allCapabilities: readonly string[] = [
  "CAP_CHOWN",
  "CAP_DAC_OVERRIDE",
  "CAP_DAC_READ_SEARCH",
  "CAP_FOWNER",
  "CAP_FSETID",
  "CAP_KILL",
  "CAP_SETGID",
  "CAP_SETUID",
  "CAP_SETPCAP",
  "CAP_LINUX_IMMUTABLE",
  "CAP_NET_BIND_SERVICE",
  "CAP_NET_BROADCAST",
  "CAP_NET_ADMIN",
  "CAP_NET_RAW",
  "CAP_IPC_LOCK",
  "CAP_IPC_OWNER",
  "CAP_SYS_MODULE",
  "CAP_SYS_RAWIO",
  "CAP_SYS_CHROOT",
  "CAP_SYS_PTRACE",
  "CAP_SYS_PACCT",
  "CAP_SYS_ADMIN",
  "CAP_SYS_BOOT",
  "CAP_SYS_NICE",
  "CAP_SYS_RESOURCE",
  "CAP_SYS_TIME",
  "CAP_SYS_TTY_CONFIG",
  "CAP_MKNOD",
  "CAP_LEASE",
  "CAP_AUDIT_WRITE",
  "CAP_AUDIT_CONTROL",
  "CAP_SETFCAP",
  "CAP_MAC_OVERRIDE",
  "CAP_MAC_ADMIN",
  "CAP_SYSLOG",
  "CAP_WAKE_ALARM",
  "CAP_BLOCK_SUSPEND",
  "CAP_AUDIT_READ",
  "CAP_PERFMON",
  "CAP_BPF",
  "CAP_CHECKPOINT_RESTORE",
];

/** Inputs of {@link chooseCapabilities}. */
export interface CapabilityChoice {
  readonly privileged: boolean;
  readonly add: readonly string[];
  readonly drop: readonly string[];
  /** The capabilities that this machine can grant. `ALL` means these. */
  readonly available: readonly string[];
}

/**
 * A container's capabilities, sorted, with containerd's rules. In this order: add `ALL`, drop `ALL`, add names, drop names. So
 * dropping wins, except that a name can be added to a dropped `ALL`.
 *
 * @throws {RuntimeError} `CAPABILITY_UNKNOWN`
 */
export function chooseCapabilities(choice: CapabilityChoice): readonly string[] {
  if (choice.privileged) return [...choice.available].sort();
  const add = choice.add.map(capabilityName);
  const drop = choice.drop.map(capabilityName);
  const first = add.includes("ALL") ? choice.available : defaultCapabilities;
  const chosen = new Set(drop.includes("ALL") ? [] : first);
  for (const name of add) if (name !== "ALL") chosen.add(name);
  for (const name of drop) chosen.delete(name);
  return [...chosen].sort();
}

/** The capabilities in this process's bounding set, which it can grant. */
export async function availableCapabilities(): Promise<readonly string[]> {
  const status = await readFile("/proc/self/status", "utf8");
  const mask = BigInt(`0x${/^CapBnd:\s*([0-9a-f]+)/m.exec(status)?.[1] ?? "0"}`);
  return allCapabilities.filter((_name, bit) => ((mask >> BigInt(bit)) & 1n) === 1n);
}

function capabilityName(given: string): string {
  const name = given.toUpperCase();
  if (name === "ALL") return name;
  const full = name.startsWith("CAP_") ? name : `CAP_${name}`;
  if (allCapabilities.includes(full)) return full;
  const hint = nearest(full, allCapabilities);
  throw new RuntimeError(
    "CAPABILITY_UNKNOWN",
    `Cannot find capability "${given}": Linux has none`,
    {
      remedy: hint ? `Did you mean ${hint.slice(4)}?` : "See capabilities(7) for the names.",
    },
  );
}
