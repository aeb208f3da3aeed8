import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * Collects all garbage now, and returns the memory to the machine. An ordinary collection keeps most of it for later use.
 * Compiled code is kept.
 */
export function collectGarbage(): void {
  for (const flag of ["--expose-gc", "--no-flush-bytecode"]) setFlagsFromString(flag);
  const collect = runInNewContext("gc") as (options: object) => void; // the flag adds it to new contexts
  collect({ type: "major", execution: "sync", flavor: "last-resort" });
}
