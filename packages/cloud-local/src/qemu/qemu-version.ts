import { stat } from "node:fs/promises";
import { runCommand, textBefore } from "@kip/base";

/** Facts about the QEMU that runs machines. */
export interface QemuFacts {
  /** Absolute path. Unchanged if the program does not exist. */
  readonly program: string;
  /** Major, minor, patch. Zeros if unknown. */
  readonly version: QemuVersion;
  /** QEMU's own version text, including the distribution's version. */
  readonly text: string;
  /** Changes whenever the program changes. */
  readonly identity: string;
}

/** Major, minor, patch. */
export type QemuVersion = readonly [number, number, number];

const known = new Map<string, Promise<QemuFacts>>();

/** Gets QEMU's version, once per installed program. */
export async function readQemuFacts(qemu: string): Promise<QemuFacts> {
  const program = await findProgram(qemu);
  const identity = await stat(program).then(
    ({ dev, ino, size, mtimeMs }) => `${dev}:${ino}:${size}:${mtimeMs}`,
    () => "missing",
  );
  const key = `${program}\0${identity}`;
  let facts = known.get(key);
  if (!facts) {
    facts = ask(program, identity);
    known.set(key, facts);
  }
  return await facts;
}

/** Whether a version is at least the given one. */
export function isAtLeast(version: QemuVersion, wanted: readonly [number, number]): boolean {
  const [major, minor] = version;
  return major > wanted[0] || (major === wanted[0] && minor >= wanted[1]);
}

/** Parses "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)". */
export function parseQemuVersion(text: string): QemuVersion {
  const match = /version (\d+)\.(\d+)(?:\.(\d+))?/.exec(text);
  return [Number(match?.[1] ?? 0), Number(match?.[2] ?? 0), Number(match?.[3] ?? 0)];
}

const programs = new Map<string, Promise<string>>();

async function findProgram(name: string): Promise<string> {
  let found = programs.get(name);
  if (!found) {
    found = runCommand("sh", ["-c", 'readlink -f "$(command -v "$1")"', "sh", name]).then(
      ({ stdout }) => stdout.trim() || name,
      () => name,
    );
    programs.set(name, found);
  }
  return await found;
}

async function ask(program: string, identity: string): Promise<QemuFacts> {
  const text = await runCommand(program, ["--version"], { timeoutMs: 10_000 }).then(
    ({ stdout }) => textBefore(stdout, "\n"),
    () => "",
  );
  return { program, identity, text, version: parseQemuVersion(text) };
}
