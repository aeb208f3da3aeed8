import { freemem } from "node:os";
import { readFileSync } from "node:fs";
import { KipError } from "../../errors.ts";

const GiB = 2 ** 30;
/** For the control plane, kip and one small cell. */
const neededMemoryBytes = 1.5 * GiB;

/**
 * Checks the requirements that nothing later can provide. Whatever needs disk space checks it itself.
 *
 * @throws {KipError} `NOT_ROOT`, `HOST_TOO_SMALL`
 */
export function checkHost(): void {
  requireRoot("start");
  const memory = availableMemory();
  if (memory < neededMemoryBytes) {
    throw new KipError(
      "HOST_TOO_SMALL",
      `Cannot start the local cluster: ${gib(memory)} GiB of memory are available, ${gib(neededMemoryBytes)} GiB are needed`,
      {
        remedy: "End other programs or use a machine with more memory",
      },
    );
  }
}

/** @throws {KipError} `NOT_ROOT` */
export function requireRoot(verb: "start" | "show" | "change" | "remove"): void {
  if (process.getuid?.() === 0) return;
  throw new KipError(
    "NOT_ROOT",
    `Cannot ${verb} the local cluster: its machines, network and state belong to root`,
    { remedy: "Run the same command with sudo" },
  );
}

function availableMemory(): number {
  const match = /^MemAvailable:\s+(\d+) kB/m.exec(readFileSync("/proc/meminfo", "utf8"));
  return match ? Number(match[1]) * 1024 : freemem();
}

function gib(value: number): string {
  return (value / GiB).toFixed(1);
}
