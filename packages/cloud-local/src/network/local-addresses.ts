import { decode, runCommand } from "@kip/base";
import type { IpFamily } from "@kip/network-view";

const routes = decode.list(
  decode.object({ dst: decode.string, table: decode.optional(decode.string) }),
);

const rules = decode.list(
  decode.object({
    table: decode.optional(decode.string),
    fwmark: decode.optional(decode.unknownValue),
    iif: decode.optional(decode.string),
  }),
);

/**
 * The addresses and prefixes of a family that this host's kernel delivers locally, sorted. They are those of all devices,
 * including the loopback device and devices without a carrier, and those of routes of type "local" (AnyIP).
 *
 * Leaves out routing tables that are only used for marked or received packets. Transparent proxies have a local default route
 * in such a table, and connections of the host's programs do not use it.
 *
 * @throws {CommandError} `COMMAND_FAILED`
 */
export async function readLocalAddresses(family: IpFamily): Promise<readonly string[]> {
  const show = async (...args: readonly string[]): Promise<unknown> => {
    const { stdout } = await runCommand("ip", ["-json", `-${family}`, ...args]);
    return stdout.trim() === "" ? [] : JSON.parse(stdout);
  };
  // Anycast addresses of routers are answered by any of them. IPv4 has none.
  const types = family === 4 ? ["local"] : ["local", "anycast"];
  const [ruleList, ...routeLists] = await Promise.all([
    show("rule", "show"),
    ...types.map(async (type) => await show("route", "show", "table", "all", "type", type)),
  ]);
  const addresses = routeLists.flatMap((list) => localAddresses(list, ruleList, family));
  return [...new Set(addresses)].sort();
}

/**
 * {@link readLocalAddresses} for the output of `ip -json`.
 *
 * @param routeList output of `ip -json -4 route show table all type local`
 * @param ruleList output of `ip -json -4 rule show`
 */
export function localAddresses(
  routeList: unknown,
  ruleList: unknown,
  family: IpFamily = 4,
): readonly string[] {
  const all = family === 4 ? "0.0.0.0/0" : "::/0";
  const byTable = Map.groupBy(rules(ruleList, "rules"), ({ table }) => table ?? "");
  const isUsed = (table: string): boolean => {
    const choosing = byTable.get(table);
    return choosing?.some((rule) => rule.fwmark === undefined && isOfHost(rule.iif)) ?? true;
  };
  const local = routes(routeList, "routes").filter(({ table = "main" }) => isUsed(table));
  return [...new Set(local.map(({ dst }) => (dst === "default" ? all : dst)))].sort();
}

/** Packets from the host's programs count as received from the loopback device. */
function isOfHost(incoming: string | undefined): boolean {
  return incoming === undefined || incoming === "lo";
}
