import type { Family } from "./family.ts";
import { serviceTables, type ServiceTable } from "./services.ts";

/**
 * Asks the kernel which table of Services packets pass; undefined for none. Both are there while a new one is filled, or
 * after a process that ended meanwhile: the one with hooks is in force, or either if both have some.
 *
 * @throws what `runNft` throws, if it cannot be found out
 */
export async function tableInForce(
  [family]: readonly Family[],
  runNft: (text: string) => Promise<string>,
): Promise<ServiceTable | undefined> {
  if (!family) return undefined;
  const lines = new Set((await runNft(`list tables ${family.ip}\n`)).split("\n"));
  const there = serviceTables.filter((table) => lines.has(`table ${family.ip} ${table}`));
  if (there.length < 2) return there[0];
  for (const table of there) {
    try {
      await runNft(`list chain ${family.ip} ${table} translate_in\n`);
      return table;
    } catch {
      // It has no hooks.
    }
  }
  return undefined;
}
