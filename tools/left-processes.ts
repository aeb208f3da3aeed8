// Ends processes that tests have left behind, for example after a time limit.
import { readdirSync, readFileSync } from "node:fs";

/** Environment variable that marks all processes of a test run. */
export const testRunVariable = "KIP_TEST_RUN";

/**
 * Kills every process with the marker in its environment, except this one.
 *
 * @param run value of {@link testRunVariable}
 * @returns their command lines
 */
export function endLeftProcesses(run: string): readonly string[] {
  const marker = `${testRunVariable}=${run}`;
  const ended: string[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    try {
      if (!readFileSync(`/proc/${name}/environ`, "utf8").split("\0").includes(marker)) continue;
      ended.push(readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ").trim());
      process.kill(Number(name), "SIGKILL");
    } catch {
      // The process has ended, or belongs to another user.
    }
  }
  return ended;
}
