import type { Pod } from "@kip/k8s-types";
import type { Rejection } from "./rejection.ts";

/**
 * Sysctls that belong to a namespace of the pod and cannot harm other pods, as in Kubernetes 1.34.
 *
 * @see https://kubernetes.io/docs/tasks/administer-cluster/sysctl-cluster/#safe-and-unsafe-sysctls
 */
const safe: ReadonlySet<string> = new Set([
  "kernel.shm_rmid_forced",
  "net.ipv4.ip_local_port_range",
  "net.ipv4.ip_local_reserved_ports",
  "net.ipv4.ip_unprivileged_port_start",
  "net.ipv4.ping_group_range",
  "net.ipv4.tcp_fin_timeout",
  "net.ipv4.tcp_keepalive_intvl",
  "net.ipv4.tcp_keepalive_probes",
  "net.ipv4.tcp_keepalive_time",
  "net.ipv4.tcp_rmem",
  "net.ipv4.tcp_syncookies",
  "net.ipv4.tcp_wmem",
]);

/** Refuses sysctls that are not safe, and those of a namespace that the pod shares with its node. In the kubelet's words. */
export function rejectSysctls({ spec }: Pod): Rejection | undefined {
  for (const { name } of spec.securityContext?.sysctls ?? []) {
    const problem = sysctlProblem(withDots(name), spec);
    if (problem !== undefined)
      return { reason: "SysctlForbidden", message: `forbidden sysctl: ${problem}` };
  }
  return undefined;
}

function sysctlProblem(
  name: string,
  { hostNetwork, hostIPC }: Pick<Pod["spec"], "hostNetwork" | "hostIPC">,
): string | undefined {
  if (!safe.has(name)) return `"${name}" not allowlisted`;
  if (name.startsWith("net.")) {
    return hostNetwork === true ? `"${name}" not allowed with host net enabled` : undefined;
  }
  return hostIPC === true ? `"${name}" not allowed with host ipc enabled` : undefined;
}

/**
 * A name with dots between its parts. Where a slash is the first separator, slashes are separators and dots belong to a
 * part, as in sysctl.d(5).
 */
function withDots(name: string): string {
  if (/[./]/.exec(name)?.[0] !== "/") return name;
  return name.replaceAll(/[./]/g, (mark) => (mark === "/" ? "." : "/"));
}
