import { runCommand } from "@kip/base";
import type { NamespaceFiles } from "./namespaces.ts";

/** A kernel setting of a pod's namespaces. */
export interface Sysctl {
  /** Parts are separated by dots, or by slashes if a part contains dots, as in sysctl.d(5). */
  readonly name: string;
  readonly value: string;
}

const shell = "/bin/sh";
/** Writes pairs of a file and its content. */
const write = `while [ $# -gt 0 ]; do printf %s "$2" >"$1" || exit; shift 2; done`;

/**
 * Extends a command line that runs in a new network namespace. It first applies containerd 2's defaults
 * (`enable_unprivileged_ports`, `enable_unprivileged_icmp`): all users may listen on ports below 1024, and ping.
 *
 * @param options.hasOwnUsers whether there is a user namespace. It has too few groups for this, and containerd then does not
 * allow ping
 */
export function withUsualSysctls(
  command: readonly string[],
  { hasOwnUsers }: { readonly hasOwnUsers: boolean },
): readonly string[] {
  const settings = [
    "echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start",
    ...(hasOwnUsers ? [] : ["echo 0 2147483647 >/proc/sys/net/ipv4/ping_group_range"]),
  ];
  return [...command, shell, "-c", `${settings.join(" && ")} && exec "$@"`, "sh"];
}

/**
 * Applies a pod's settings once. Later changes by a container stay. Does nothing without settings.
 *
 * @throws {CommandError} `COMMAND_FAILED`, for example for a value that the kernel refuses
 */
export async function setSysctls(
  sysctls: readonly Sysctl[],
  { user, ipc, net }: NamespaceFiles & { readonly user?: string | undefined },
): Promise<void> {
  if (sysctls.length === 0) return;
  // As root of the pod's user namespace, because no other user may change settings of its IPC namespace.
  const namespaces = Object.entries({ user, ipc, net }).flatMap(([kind, file]) =>
    file === undefined ? [] : `--${kind}=${file}`,
  );
  const pairs = sysctls.flatMap(({ name, value }) => [sysctlFile(name), value]);
  await runCommand("/usr/bin/nsenter", [...namespaces, "--", shell, "-c", write, "sh", ...pairs]);
}

/** The file of a setting. */
export function sysctlFile(name: string): string {
  const hasDots = /[./]/.exec(name)?.[0] !== "/";
  const swap = (mark: string): string => (mark === "/" ? "." : "/");
  return `/proc/sys/${hasDots ? name.replaceAll(/[./]/g, swap) : name}`;
}
