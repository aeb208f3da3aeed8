import { runCommand } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { qemuPrograms } from "./architecture.ts";

/** Debian packages of the programs that the local cloud always runs. */
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
};

/** That of the program that runs machines: needed only for the processors that cells have. */
function qemuPackage(program: string): string {
  return program === qemuPrograms.arm64 ? "qemu-system-arm" : "qemu-system-x86";
}

/** Those of the programs that are not installed. */
export async function missingPrograms(names: readonly string[]): Promise<readonly string[]> {
  const script = 'for name in "$@"; do command -v "$name" >/dev/null || echo "$name"; done';
  const { stdout } = await runCommand("sh", ["-c", script, "sh", ...names]);
  return stdout.split("\n").filter((name) => name !== "");
}

/**
 * Checks that everything that the local cloud runs is installed.
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
