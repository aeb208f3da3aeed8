import type { Family } from "./family.ts";
import { policyTables, type PolicyTable } from "./policy-rules.ts";
import { serviceTables, type ServiceTable } from "./services.ts";

type RunNft = (text: string) => Promise<string>;

/**
 * Reads from the kernel which table of Services is in force. Undefined if none is. Both tables exist while a new one is filled, and if a process
 * ended during that. The one with hooks is in force. If both have hooks, it is the newer one.
 *
 * @throws errors of `runNft`
 */
export async function tableInForce(
  [family]: readonly Family[],
  runNft: RunNft,
): Promise<ServiceTable | undefined> {
  return family && (await newestWithHooks(serviceTables, family, runNft));
}

/**
 * Reads from the kernel which table of policies is in force. Undefined if none is. If a process ended before it removed the old table, both are
 * in force. Then this returns the newer one, so that the older one is replaced.
 *
 * @throws errors of `runNft`
 */
export async function policyTableInForce(
  [family]: readonly Family[],
  runNft: RunNft,
): Promise<PolicyTable | undefined> {
  return family && (await newestWithHooks(policyTables, family, runNft));
}

/**
 * The newest of the tables that have hooks. It is the last one, because the kernel lists tables in the order of their creation. Lists all
 * chains, because nft 1.0.6 then does not read the elements of all tables. To list tables or a single chain, it reads them, which takes 2 s and
 * 220 MB for 10,000 Services.
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
