import { runCommand } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { qemuPrograms } from "./architecture.ts";

/** Debian packages of the programs that the local cloud always needs. */
const packages: Readonly<Record<string, string>> = {
  ip: "iproute2",
  nft: "nftables",
  sysctl: "procps",
  unshare: "util-linux",
  nsenter: "util-linux",
  setpriv: "util-linux",
  umount: "mount",
  flock: "util-linux",
  "qemu-img": "qemu-utils",
  genisoimage: "genisoimage",
  socat: "socat",
};

/** The package of a program that runs machines. Only the programs for the architectures of cells are needed. */
function qemuPackage(program: string): string {
  return program === qemuPrograms.arm64 ? "qemu-system-arm" : "qemu-system-x86";
}

/** The programs that are not installed. */
export async function missingPrograms(names: readonly string[]): Promise<readonly string[]> {
  const script = 'for name in "$@"; do command -v "$name" >/dev/null || echo "$name"; done';
  const { stdout } = await runCommand("sh", ["-c", script, "sh", ...names]);
  return stdout.split("\n").filter((name) => name !== "");
}

/**
 * Checks that all programs for the local cloud are installed.
 *
 * @param qemus programs that run machines
 * @throws {CloudError} `CLOUD_INVALID_REQUEST` naming the programs and their packages
 */
export async function requirePrograms(qemus: readonly string[]): Promise<void> {
  const missing = await missingPrograms([...qemus, ...Object.keys(packages)]);
  if (missing.length === 0) return;
  const wanted = new Set(missing.map((name) => packages[name] ?? qemuPackage(name)));
  throw new CloudError(
    "CLOUD_INVALID_REQUEST",
    `Cannot open the local cloud: ${missing.join(", ")} not found`,
    { remedy: `Run: apt-get install ${[...wanted].join(" ")}` },
  );
}
