import { hostArchitecture, type Architecture } from "@kip/base";

/** QEMU's programs. */
export const qemuPrograms: Readonly<Record<Architecture, string>> = {
  amd64: "qemu-system-x86_64",
  arm64: "qemu-system-aarch64",
};

/**
 * The program that runs machines of an architecture.
 *
 * @param own the program for this computer's architecture
 */
export function qemuFor(architecture: Architecture, own: string): string {
  return architecture === hostArchitecture ? own : qemuPrograms[architecture];
}
