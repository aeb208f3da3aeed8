import { accessSync, constants } from "node:fs";
import path from "node:path";

/** Why this computer cannot run arm64 machines. False if it can. */
export function whyNoArm64(): string | false {
  if (process.getuid?.() !== 0) return "machines are started by root only";
  const program = "qemu-system-aarch64";
  const folders = (process.env["PATH"] ?? "").split(path.delimiter);
  const isThere = folders.some((folder) => {
    try {
      accessSync(path.join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
  return isThere ? false : `there is no ${program} (Debian: qemu-system-arm)`;
}
