import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * Collects all garbage now, and gives the memory back to the machine. An ordinary collection keeps most of it for what comes.
 * Code that has been compiled stays.
 */
export function collectGarbage(): void {
  for (const flag of ["--expose-gc", "--no-flush-bytecode"]) setFlagsFromString(flag);
  const collect = runInNewContext("gc") as (options: object) => void; // what the flag puts into new contexts
  collect({ type: "major", execution: "sync", flavor: "last-resort" });
}
