import type { Family } from "./family.ts";
import { policyTables, type PolicyTable } from "./policy-rules.ts";
import { serviceTables, type ServiceTable } from "./services.ts";

type RunNft = (text: string) => Promise<string>;

/**
 * Asks the kernel which table of Services packets pass; undefined for none. Both are there while a new one is filled, or
 * after a process that ended meanwhile: the one with hooks is in force, and the newer one if both have some.
 *
 * @throws what `runNft` throws, if it cannot be found out
 */
export async function tableInForce(
  [family]: readonly Family[],
  runNft: RunNft,
): Promise<ServiceTable | undefined> {
  if (!family) return undefined;
  const there = await newestFirst(serviceTables, family, runNft);
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

/**
 * Asks the kernel which table of policies packets pass; undefined for none. Both are in force after a process that ended before it
 * removed the old one: the newer one is to stay until there is another one.
 *
 * @throws what `runNft` throws, if it cannot be found out
 */
export async function policyTableInForce(
  [family]: readonly Family[],
  runNft: RunNft,
): Promise<PolicyTable | undefined> {
  return family && (await newestFirst(policyTables, family, runNft))[0];
}

/** Those tables that there are. The kernel lists tables in the order in which they were made. */
async function newestFirst<Name extends string>(
  names: readonly Name[],
  { ip }: Family,
  runNft: RunNft,
): Promise<readonly Name[]> {
  const lines = (await runNft(`list tables ${ip}\n`)).split("\n").toReversed();
  return lines.flatMap((line) => names.find((name) => line === `table ${ip} ${name}`) ?? []);
}
