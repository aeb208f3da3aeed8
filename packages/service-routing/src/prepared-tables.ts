import { families, familiesOf, ofFamily, type Family } from "./family.ts";
import { closedPolicyTable, policyTables } from "./policy-rules.ts";
import type { RoutingPlace } from "./routing-place.ts";
import { emptyRuleSet, RuleSetBuilder, TableChange, type RuleSet } from "./rule-set.ts";
import { balanceChain, balanceRules } from "./service-rules.ts";
import { emptyTable, tableHooks } from "./service-table.ts";
import { serviceTables } from "./services.ts";

/** Tables in force on a machine that has no pod yet. They have no Services and addresses, and let nothing pass to or from a pod. */
export interface PreparedTables {
  /** The machine's end of the cable that the pod will have. */
  readonly cable: string;
  readonly machinePorts: RoutingPlace["machinePorts"];
}

/** The families with prepared tables: only IPv4, because most pods have no other addresses. */
const prepared = families.filter(({ number }) => number === 4);

/** The numbers of endpoints for which shared chains are prepared. Each other chain takes some milliseconds at the start of a pod. */
export const preparedCounts: readonly number[] = [1, 2, 3, 4, 5, 6, 7, 8];

function emptyPlace({ machinePorts }: Pick<PreparedTables, "machinePorts">): RoutingPlace {
  const none = { podAddresses: [], nodeAddresses: [], serviceRanges: [] };
  return { ...none, machinePorts };
}

/**
 * Replaces all rules of Services and policies by {@link PreparedTables}. Creating tables and hooks takes most of the time of a pod's first
 * change. With prepared tables, that change only adds elements and the rules of the policy.
 *
 * @param options.cable the machine's end of the cable that the pod will have
 * @param options.machinePorts see `RoutingPlace`
 * @param options.runNft runs commands of nft as one transaction
 * @throws errors of `runNft`
 */
export async function prepareTables(options: {
  readonly cable: string;
  readonly machinePorts?: RoutingPlace["machinePorts"];
  readonly runNft: (text: string) => Promise<unknown>;
}): Promise<PreparedTables> {
  const { cable, machinePorts, runNft } = options;
  const tables = { cable, machinePorts };
  await runNft(prepared.map((family) => preparedText(tables, family)).join(""));
  return tables;
}

/** Commands for a pod without rules: everything passes to and from it. They work with and without prepared tables. */
export const openPreparedTables: string = prepared
  .map((family) => removal(policiesTable(family)))
  .join("");

/** Whether rules for a place can be added to the prepared tables. */
export function isPreparedFor(
  { cable, machinePorts }: PreparedTables,
  place: RoutingPlace,
): boolean {
  const hasPorts = String(machinePorts) === String(place.machinePorts);
  const isOfFamilies = familiesOf(place).every((family) => prepared.includes(family));
  return hasPorts && place.cable === cable && place.clients === undefined && isOfFamilies;
}

/** Commands that add the addresses of a place to prepared tables. */
export function placeElements(place: RoutingPlace): string {
  return familiesOf(place)
    .map((family) => {
      const nodes = setOf("nodes", place.nodeAddresses, family);
      return [
        textOf(servicesTable(family), setOf("pods", place.podAddresses, family)),
        textOf(servicesTable(family), nodes),
        textOf(servicesTable(family), setOf("service_ranges", place.serviceRanges, family)),
        textOf(policiesTable(family), nodes),
      ];
    })
    .flat()
    .join("");
}

function preparedText(tables: PreparedTables, family: Family): string {
  const { cable } = tables;
  const place = emptyPlace(tables);
  const chains = new RuleSetBuilder();
  for (const count of preparedCounts)
    chains.chains.set(balanceChain(count), balanceRules(count, family));
  const others = [...serviceTables.slice(1), ...policyTables.slice(1)].map(
    (name) => `${family.ip} ${name}`,
  );
  return [
    emptyTable(servicesTable(family), family, place),
    textOf(servicesTable(family), chains),
    tableHooks(servicesTable(family), family, place),
    ...others.map(removal),
    closedPolicyTable(policiesTable(family), { family, cable, nodes: [] }),
  ].join("");
}

/** Commands that remove a table, if it exists. */
function removal(table: string): string {
  return `add table ${table}\ndelete table ${table}\n`;
}

function servicesTable({ ip }: Family): string {
  return `${ip} ${serviceTables[0]}`;
}

function policiesTable({ ip }: Family): string {
  return `${ip} ${policyTables[0]}`;
}

function setOf(name: string, list: readonly string[], family: Family): RuleSet {
  const rules = new RuleSetBuilder();
  for (const entry of ofFamily(list, family)) rules.element(name, entry);
  return rules;
}

function textOf(table: string, rules: RuleSet): string {
  const change = new TableChange(table);
  change.add(emptyRuleSet, rules);
  return change.text();
}
