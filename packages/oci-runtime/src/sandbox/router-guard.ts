import { runCommand } from "@kip/base";

const table = "kip-router";
/** The longest router lifetime in an advertisement (RFC 4861, 6.2.1), seconds. */
const longestLifetimeS = 9000;

/**
 * Makes the machine accept advertisements of just one router on an interface: the known one, or else the first one. Otherwise
 * another neighbour could advertise itself with a higher preference. May be repeated.
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
 * First come the kernel's own conditions: a link-local source and a hop limit of 255. Otherwise a remote host could take the
 * only place. Routers that do not fit into the set reach the last rule.
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
