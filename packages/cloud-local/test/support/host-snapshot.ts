import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { runCommand } from "@kip/base";
import { controlGroupPath } from "../../src/host/control-group.ts";

/**
 * Everything that a local cloud could leave on the host, as text for comparing: devices, addresses, routes, rules, namespaces,
 * mounts, control groups. Only includes lines with the given name or range, because other tests run at the same time.
 */
export async function hostSnapshot(name: string, range: string): Promise<readonly string[]> {
  const commands = [
    ["ip", "-o", "link"],
    ["ip", "-o", "addr"],
    ["ip", "-4", "route", "show", "table", "all"],
    ["ip", "-6", "route", "show", "table", "all"],
    ["ip", "netns"],
    ["nft", "list", "ruleset"],
  ] as const;
  const outputs = await Promise.all(
    commands.map(async ([program, ...args]) => (await runCommand(program, args)).stdout),
  );
  const processes = (await runCommand("ps", ["-eo", "args"])).stdout.split("\n");
  const mounts = await readFile("/proc/self/mountinfo", "utf8");
  const network = range.split(".").slice(0, 3).join(".");
  const groups = await controlGroupPath("any");
  const siblings = groups === undefined ? [] : await readdir(path.dirname(groups));
  return (
    [...outputs, mounts, ...siblings]
      .flatMap((text) => text.split("\n"))
      .filter((line) => line.includes(name) || line.includes(network))
      // A process of another test may contain these addresses, to test whether its machines can reach them.
      .concat(processes.filter((line) => line.includes(name)))
      .filter((line) => !line.includes(".int.test.ts"))
  );
}
