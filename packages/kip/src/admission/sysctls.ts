import type { Pod } from "@kip/k8s-types";
import type { AdmissionCheck } from "./rejection.ts";

/**
 * Sysctls that belong to a namespace of the pod and cannot harm other pods. The list of Kubernetes 1.34.
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

/** Sysctls that the kernel has per namespace, including prefixes for patterns. The list of Kubernetes 1.34. */
const ipc: ReadonlySet<string> = new Set([
  "kernel.msg",
  "kernel.msgmax",
  "kernel.msgmnb",
  "kernel.msgmni",
  "kernel.sem",
  "kernel.shm",
  "kernel.shm_rmid_forced",
  "kernel.shmall",
  "kernel.shmmax",
  "kernel.shmmni",
]);

/** The syntax that a kubelet accepts: a name, or a prefix with an asterisk, with dots or slashes between the parts. */
const patternForm = /^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]$/;

/**
 * Why a kubelet refuses this entry of its `allowedUnsafeSysctls`. Undefined if it accepts it.
 *
 * @param pattern the name of a sysctl, or a prefix with an asterisk, for example `net.ipv4.conf.*`
 */
export function sysctlPatternProblem(pattern: string): string | undefined {
  if (pattern.length > 253 || !patternForm.test(pattern))
    return "is not the name of a sysctl, or its beginning with an asterisk at the end";
  return namespaceOf(withDots(pattern).replace(/\*$/, "")) === undefined
    ? "is not known to be namespaced"
    : undefined;
}

/**
 * Refuses sysctls that are neither safe nor allowed by the node's settings, and those of a namespace that the pod shares with
 * its node. Uses the kubelet's words.
 */
export const rejectSysctls: AdmissionCheck = ({ spec }, { allowedUnsafeSysctls = [] }) => {
  for (const { name } of spec.securityContext?.sysctls ?? []) {
    const problem = sysctlProblem(withDots(name), spec, allowedUnsafeSysctls);
    if (problem !== undefined)
      return { reason: "SysctlForbidden", message: `forbidden sysctl: ${problem}` };
  }
  return undefined;
};

function sysctlProblem(
  name: string,
  { hostNetwork, hostIPC }: Pick<Pod["spec"], "hostNetwork" | "hostIPC">,
  allowed: readonly string[],
): string | undefined {
  const rule = safe.has(name) ? name : allowed.map(withDots).find((each) => covers(each, name));
  if (rule === undefined) return `"${name}" not allowlisted`;
  const namespace = namespaceOf(rule.replace(/\*$/, ""));
  const isShared = namespace === "Net" ? hostNetwork === true : hostIPC === true;
  return isShared ? `"${name}" not allowed with host ${namespace} enabled` : undefined;
}

function covers(pattern: string, name: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

/** The namespace of a sysctl, or of all sysctls with this prefix, as named in the kubelet's messages. */
function namespaceOf(name: string): "IPC" | "Net" | undefined {
  if (name.startsWith("net.")) return "Net";
  return ipc.has(name) || name.startsWith("fs.mqueue.") ? "IPC" : undefined;
}

/**
 * The name with dots between its parts. If the first separator is a slash, slashes are separators and dots belong to a part, as
 * in sysctl.d(5).
 */
function withDots(name: string): string {
  if (/[./]/.exec(name)?.[0] !== "/") return name;
  return name.replaceAll(/[./]/g, (mark) => (mark === "/" ? "." : "/"));
}
