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
  return family && (await newestWithHooks(serviceTables, family, runNft));
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
  return family && (await newestWithHooks(policyTables, family, runNft));
}

/**
 * The last of the tables that have hooks: the kernel lists tables in the order in which they were made. To list tables or one chain,
 * nft 1.0.6 reads all elements of all tables, for 10,000 Services in 2 s of processor time and 220 MB; to list all chains it does not.
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
