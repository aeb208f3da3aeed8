import { outermost, parseCidr } from "@kip/network-view";
import { families, ofFamily, type Family } from "./family.ts";
import { rangeSet } from "./range-set.ts";

/** What {@link egressTables} are made for. */
export interface EgressPlace {
  /** The pod's addresses, at most one of each family. */
  readonly podAddresses: readonly string[];
  /** The machine's end of the pod's cable. */
  readonly cable: string;
  /** CIDRs to which packets keep the pod's address; a family's range of all addresses leaves that family alone. */
  readonly directRanges: readonly string[];
}

const table = "kip_egress";

/**
 * Commands of nft that give what the pod sends to addresses outside of the direct ranges the machine's own address, in place of
 * those of before, as one transaction. Connections that are open stay as they are.
 *
 * The kernel asks these rules after those that forward: Services have been led to an endpoint, and the pod's policies have seen
 * its own address. Answers get the pod's address back before policies see them. It follows ip-masq-agent, for the one pod of a machine.
 */
export function egressTables({ podAddresses, cable, directRanges }: EgressPlace): string {
  return families
    .flatMap((family) => {
      const [pod] = ofFamily(podAddresses, family);
      const direct = ofFamily(directRanges, family);
      return pod === undefined || coversAll(direct)
        ? []
        : [tableOf({ family, pod, cable, direct })];
    })
    .join("");
}

function coversAll(cidrs: readonly string[]): boolean {
  const ranges = outermost(cidrs.flatMap((text) => parseCidr(text) ?? []));
  return ranges.some(({ text }) => text.endsWith("/0"));
}

function tableOf(of: {
  readonly family: Family;
  readonly pod: string;
  readonly cable: string;
  readonly direct: readonly string[];
}): string {
  const { ip } = of.family;
  const elsewhere = of.direct.length === 0 ? "" : `${ip} daddr != ${rangeSet(of.direct)} `;
  return `
add table ${ip} ${table}
delete table ${ip} ${table}
table ${ip} ${table} {
  chain leave {
    type nat hook postrouting priority srcnat
    ${ip} saddr ${of.pod} oifname != "${of.cable}" ${elsewhere}masquerade
  }
}
`;
}
