import type { Family } from "./family.ts";
import { policyTables, type PolicyTable } from "./policy-rules.ts";
import { serviceTables, type ServiceTable } from "./services.ts";

type RunNft = (text: string) => Promise<string>;

/**
 * Asks the kernel which table of Services is in force; undefined for none. Both exist while a new one is filled, and after a process that ended
 * meanwhile. The one with hooks is in force; if both have hooks, the newer one is.
 *
 * @throws what `runNft` throws, if it cannot be found out
 */
export async function tableInForce(
  [family]: readonly Family[],
  runNft: RunNft,
): Promise<ServiceTable | undefined> {
  return family && (await newestWithHooks(serviceTables, family, runNft));
}

/**
 * Asks the kernel which table of policies is in force; undefined for none. If a process ended before it had removed the old table, both are,
 * and the newer one is given: the older one is then replaced.
 *
 * @throws what `runNft` throws, if it cannot be found out
 */
export async function policyTableInForce(
  [family]: readonly Family[],
  runNft: RunNft,
): Promise<PolicyTable | undefined> {
  return family && (await newestWithHooks(policyTables, family, runNft));
}

/**
 * The last of the tables that have hooks: the kernel lists tables in the order in which they were made. All chains are listed, as nft 1.0.6
 * does not read the elements of all tables for that. To list tables or one chain it does, which takes 2 s and 220 MB for 10,000 Services.
 */
async function newestWithHooks<Name extends string>(
  names: readonly Name[],
  { ip }: Family,
  runNft: RunNft,
): Promise<Name | undefined> {
  let table: Name | undefined;
  let newest: Name | undefined;
  for (const line of (await runNft(`list chains ${ip}\n`)).split("\n")) {
    const [, name] = /^table \S+ (\S+) \{/.exec(line) ?? [];
    if (name !== undefined) table = names.find((each) => each === name);
    else if (/^\s+type \S+ hook /.test(line)) newest = table ?? newest;
  }
  return newest;
}
