import { runCommand } from "@kip/base";

const table = "kip-router";
/** The longest that a router says it may be used without a further advertisement (RFC 4861, 6.2.1), seconds. */
const longestLifetimeS = 9000;

/**
 * Has the machine take advertisements of one router on an interface: the one that it knows, else the first that comes. Another
 * neighbour of the link could be preferred otherwise, as an advertisement says itself how it is. May be repeated.
 *
 * @throws {CommandError} `COMMAND_FAILED`
 */
export async function keepFirstRouter(device: string): Promise<void> {
  const words = ["-6", "route", "show", "default", "dev", device, "proto", "ra"];
  const { stdout } = await runCommand("/usr/sbin/ip", words);
  const known = /\bvia (fe80:[\da-f:]+)/.exec(stdout)?.[1];
  await runCommand("/usr/sbin/nft", ["-f", "-"], { input: routerTable(device, known) });
}

/**
 * The kernel's own demands come first, a source on the link and 255 hops: others could fill the one place from afar. What does not
 * fit into the set goes on to the last rule.
 */
function routerTable(device: string, known: string | undefined): string {
  const elements = known === undefined ? "" : `elements = { ${known} }`;
  return `table ip6 ${table}
delete table ip6 ${table}
table ip6 ${table} {
  set routers {
    type ipv6_addr
    size 1
    flags dynamic, timeout
    timeout ${longestLifetimeS}s
    ${elements}
  }
  chain input {
    type filter hook input priority filter
    iifname != "${device}" accept
    icmpv6 type != nd-router-advert accept
    ip6 hoplimit 255 ip6 saddr fe80::/10 update @routers { ip6 saddr } accept
    drop
  }
}
`;
}
