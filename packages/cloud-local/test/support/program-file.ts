import path from "node:path";

/** Path of a program that tests run, in `test/programs`. */
export function programFile(name: string): string {
  return path.join(import.meta.dirname, "../programs", name);
}
