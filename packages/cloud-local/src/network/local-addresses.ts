import { decode, runCommand } from "@kip/base";

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
 * The IPv4 addresses and prefixes that the kernel of this host delivers to itself, sorted: those of all devices, also of
 * devices without a carrier and of the loopback device, and those of routes of the type "local" (AnyIP).
 *
 * Routing tables that only marked or received packets are looked up in are left out: transparent proxies have a local
 * default route in one, and programs of the host do not use it to connect.
 *
 * @throws {CommandError} `COMMAND_FAILED`
 */
export async function readLocalAddresses(): Promise<readonly string[]> {
  const show = async (...args: readonly string[]): Promise<unknown> => {
    const { stdout } = await runCommand("ip", ["-json", "-4", ...args]);
    return stdout.trim() === "" ? [] : JSON.parse(stdout);
  };
  const [routeList, ruleList] = await Promise.all([
    show("route", "show", "table", "all", "type", "local"),
    show("rule", "show"),
  ]);
  return localAddresses(routeList, ruleList);
}

/**
 * The same, of what `ip -json` has printed.
 *
 * @param routeList of `ip -json -4 route show table all type local`
 * @param ruleList of `ip -json -4 rule show`
 */
export function localAddresses(routeList: unknown, ruleList: unknown): readonly string[] {
  const byTable = Map.groupBy(rules(ruleList, "rules"), ({ table }) => table ?? "");
  const isUsed = (table: string): boolean => {
    const choosing = byTable.get(table);
    return choosing?.some((rule) => rule.fwmark === undefined && isOfHost(rule.iif)) ?? true;
  };
  const local = routes(routeList, "routes").filter(({ table = "main" }) => isUsed(table));
  return [...new Set(local.map(({ dst }) => (dst === "default" ? "0.0.0.0/0" : dst)))].sort();
}

/** What programs of the host send counts as received from the loopback device. */
function isOfHost(incoming: string | undefined): boolean {
  return incoming === undefined || incoming === "lo";
}
