import { readFileSync } from "node:fs";
import { maxInterfaces, type InterfaceStats } from "@kip/agent-api";

/** The interfaces that cAdvisor ignores, and the cell's own: its ends of the pod's cable, and those that limit bandwidth. */
const ignored = /^(lo|veth|docker|nerdctl|kip-)/i;
/** Usual names. Linux accepts more. */
const usual = /^[\w.:@-]+$/;

/**
 * The network interfaces that a process sees, except loopback. Empty if it has ended.
 *
 * @param pid PID of a process in the pod's network namespace
 * @see https://docs.kernel.org/filesystems/proc.html#networking-info-in-proc-net
 */
export function readInterfaces(pid: number, proc: string = "/proc"): readonly InterfaceStats[] {
  try {
    return parseInterfaces(readFileSync(`${proc}/${pid}/net/dev`, "utf8"));
  } catch {
    return [];
  }
}

function parseInterfaces(text: string): readonly InterfaceStats[] {
  return text
    .split("\n")
    .slice(2)
    .flatMap((line): InterfaceStats[] => {
      const at = line.lastIndexOf(":");
      const name = line.slice(0, at).trim();
      if (at < 0 || ignored.test(name) || !usual.test(name)) return [];
      const figures = line
        .slice(at + 1)
        .trim()
        .split(/\s+/)
        .map(Number);
      const [receivedBytes = 0, receivedPackets = 0, receivedErrors = 0, receivedDropped = 0] =
        figures;
      const [sentBytes = 0, sentPackets = 0, sentErrors = 0, sentDropped = 0] = figures.slice(8);
      return [
        {
          name,
          receivedBytes,
          receivedPackets,
          receivedErrors,
          receivedDropped,
          sentBytes,
          sentPackets,
          sentErrors,
          sentDropped,
        },
      ];
    })
    .slice(0, maxInterfaces);
}
