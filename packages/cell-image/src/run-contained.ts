import { runCommand } from "@kip/base";

/**
 * Runs a program in process and mount namespaces of its own. When it is stopped or this process is killed, all its processes
 * and mounts are gone.
 *
 * @returns its standard output
 * @throws {CommandError} `COMMAND_FAILED`
 */
export async function runContained(
  file: string,
  args: readonly string[],
  options: {
    /** Whether it can use this host's network. @default true */
    readonly hasNetwork?: boolean | undefined;
    readonly signal?: AbortSignal | undefined;
  } = {},
): Promise<string> {
  const network = options.hasNetwork === false ? ["--net"] : [];
  const contained = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", ...network];
  const dieWithParent = ["--pdeathsig", "KILL", "unshare"];
  const command = [...dieWithParent, ...contained, file, ...args];
  return (await runCommand("setpriv", command, { signal: options.signal })).stdout;
}
