import { outermost, parseCidr } from "@kip/network-view";
import { families, ofFamily, type Family } from "./family.ts";
import { rangeSet } from "./range-set.ts";

/** The pod that {@link egressTables} are for, and its network. */
export interface EgressPlace {
  /** The pod's addresses, at most one of each family. */
  readonly podAddresses: readonly string[];
  /** Name of the machine's end of the pod's cable. */
  readonly cable: string;
  /** CIDRs to which packets keep the pod's address. If they cover all addresses of a family, it gets no table. */
  readonly directRanges: readonly string[];
}

const table = "kip_egress";

/**
 * Commands of nft that masquerade packets of the pod to addresses outside of the direct ranges: they get the machine's address as source. The
 * commands replace earlier ones in one transaction. Open connections do not change.
 *
 * The kernel evaluates these rules after the forward hook. So Services are already translated to an endpoint, and the pod's policies have seen
 * the pod's own address. In replies, the pod's address is restored before policies see them. This corresponds to ip-masq-agent, for the only
 * pod of a machine.
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
