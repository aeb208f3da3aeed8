import { once } from "node:events";
import { existsSync, readFileSync, watch } from "node:fs";
import path from "node:path";
import { decode } from "@kip/base";

const decodeTimings = decode.map(decode.number);

/**
 * Waits until the boot script has set up the network and fetched the seed, which runs beside this program's start.
 *
 * @param directory where the script leaves its results
 * @returns milliseconds from the kernel's start to each step
 */
export async function bootTimingsMs(directory: string): Promise<Readonly<Record<string, number>>> {
  const file = path.join(directory, "boot-timings");
  if (!existsSync(file)) await appearance(file);
  const seconds = decodeTimings(JSON.parse(readFileSync(file, "utf8")), "boot-timings");
  return Object.fromEntries(
    Object.entries(seconds).map(([step, value]) => [step, Math.round(value * 1000)]),
  );
}

async function appearance(file: string): Promise<void> {
  // Watch first, look second: the file may come in between.
  const watcher = watch(path.dirname(file));
  try {
    while (!existsSync(file)) await once(watcher, "change");
  } finally {
    watcher.close();
  }
}
