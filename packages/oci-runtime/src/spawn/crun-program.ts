import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { runCommand, type Logger } from "@kip/base";

/** How Kip and conmon start crun. */
export interface CrunProgram {
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
}

const plainEnv = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };

/**
 * A container could overwrite the crun that enters it (CVE-2019-5736). So at each start, crun mounts itself read-only and
 * executes that copy. Loading its libraries twice takes as long as the rest of a container's creation. This makes the read-only
 * mount once and passes it to crun, which checks it. If that does not work, crun protects itself as usual.
 *
 * @param folder a private folder for the mount. A mount of an earlier run is taken over
 */
export async function protectCrun(
  crun: string,
  folder: string,
  logger: Logger,
): Promise<CrunProgram> {
  const file = path.join(folder, "crun");
  try {
    if (!(await isReadOnlyMount(file))) {
      await writeFile(file, "");
      await runCommand("/usr/bin/mount", ["-o", "bind,ro", crun, file]);
    }
    if (await isReadOnlyMount(file))
      return { path: file, env: { ...plainEnv, _LIBCONTAINER_CLONED_BINARY: "1" } };
  } catch (error) {
    logger.debug("Could not mount crun read-only: it protects itself", { err: error });
  }
  return { path: crun, env: plainEnv };
}

/** Whether this file itself is a read-only mount point. */
async function isReadOnlyMount(file: string): Promise<boolean> {
  const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n");
  // Fields of proc_pid_mountinfo(5): the fifth is the mount point, and the sixth its options. The last mount covers the others.
  const options = mounts
    .map((line) => line.split(" "))
    .findLast((fields) => fields[4] === file)?.[5];
  return options?.split(",").includes("ro") ?? false;
}
