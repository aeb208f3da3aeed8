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
 * The addresses and prefixes of a family that the kernel of this host delivers to itself, sorted: those of all devices, also of
 * devices without a carrier and of the loopback device, and those of routes of the type "local" (AnyIP).
 *
 * Routing tables that only marked or received packets are looked up in are left out: transparent proxies have a local
 * default route in one, and programs of the host do not use it to connect.
 *
 * @throws {CommandError} `COMMAND_FAILED`
 */
export async function readLocalAddresses(family: IpFamily): Promise<readonly string[]> {
  const show = async (...args: readonly string[]): Promise<unknown> => {
    const { stdout } = await runCommand("ip", ["-json", `-${family}`, ...args]);
    return stdout.trim() === "" ? [] : JSON.parse(stdout);
  };
  // Addresses of routers that any of them answers; there are none of IPv4.
  const types = family === 4 ? ["local"] : ["local", "anycast"];
  const [ruleList, ...routeLists] = await Promise.all([
    show("rule", "show"),
    ...types.map(async (type) => await show("route", "show", "table", "all", "type", type)),
  ]);
  const addresses = routeLists.flatMap((list) => localAddresses(list, ruleList, family));
  return [...new Set(addresses)].sort();
}

/**
 * The same, of what `ip -json` has printed.
 *
 * @param routeList of `ip -json -4 route show table all type local`
 * @param ruleList of `ip -json -4 rule show`
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

/** What programs of the host send counts as received from the loopback device. */
function isOfHost(incoming: string | undefined): boolean {
  return incoming === undefined || incoming === "lo";
}
