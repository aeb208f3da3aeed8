import { spawnSync } from "node:child_process";
import { homedir, userInfo } from "node:os";
import path from "node:path";
import type { OptionValues } from "@kip/base";

/** Path of the caller's kubeconfig, even if called with sudo. */
export function userKubeconfig(options: OptionValues): string {
  const given = options.text("kubeconfig");
  if (given !== undefined) return path.resolve(given);
  const fromEnv = process.env["KUBECONFIG"]?.split(":").find((each) => each !== "");
  if (fromEnv !== undefined) return path.resolve(fromEnv);
  // HOME may be empty or relative, and later uses have another working folder.
  const home = path.isAbsolute(homedir()) ? homedir() : userInfo().homedir;
  return path.join(homeOf(process.env["SUDO_USER"]) ?? home, ".kube", "config");
}

/** Home folder of a user, who may be known only to a directory service. */
function homeOf(user: string | undefined): string | undefined {
  if (user === undefined || user === userInfo().username) return undefined;
  const { stdout } = spawnSync("getent", ["passwd", user], { encoding: "utf8" });
  const home = stdout?.trim().split(":")[5];
  return home === undefined || home === "" ? undefined : home;
}
