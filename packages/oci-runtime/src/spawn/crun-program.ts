import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { runCommand, type Logger } from "@kip/base";

/** How crun is started: every call of it, by us and by conmon. */
export interface CrunProgram {
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
}

const plainEnv = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };

/**
 * A container could write to the crun that enters it (CVE-2019-5736). crun therefore shows itself
 * again as a read-only mount at each start and executes that: twice the loading of its libraries, as
 * long as all the rest of a container's creation. Here the read-only mount is made once, and crun is
 * told so; it checks the mount itself. Where that does not work, crun does as ever.
 *
 * @param folder of our own, where the mount is made; one of an earlier life is taken over
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

/** Whether this very file is a mount point, and read-only. */
async function isReadOnlyMount(file: string): Promise<boolean> {
  const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n");
  // Fields of proc_pid_mountinfo(5): the mount point is the fifth, its options the sixth. The last mount covers the others.
  const options = mounts
    .map((line) => line.split(" "))
    .findLast((fields) => fields[4] === file)?.[5];
  return options?.split(",").includes("ro") ?? false;
}
