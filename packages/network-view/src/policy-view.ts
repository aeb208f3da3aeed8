import { decode, type Decoder } from "@kip/base";
import { cidr, name, port, protocol, type Protocol } from "./decoders.ts";
import { limits } from "./limits.ts";

const { list, object, optional } = decode;

/** Ports of one protocol. */
export interface PolicyPort {
  readonly protocol: Protocol;
  /** @default all ports */
  readonly port?: number | undefined;
  /** Last port of a range that begins with `port`. @default `port` alone */
  readonly endPort?: number | undefined;
}

/** A range of addresses without some parts of it. */
export interface PolicyBlock {
  readonly cidr: string;
  readonly except?: readonly string[] | undefined;
}

/** What may pass: packets of one of the peers to one of the ports. */
export interface PolicyRule {
  /** Names of address groups. A rule with neither groups nor blocks is for every peer. */
  readonly groups?: readonly string[] | undefined;
  readonly blocks?: readonly PolicyBlock[] | undefined;
  /** @default all ports and protocols */
  readonly ports?: readonly PolicyPort[] | undefined;
}

/** What may reach one pod, and what it may reach. An absent direction is not restricted; an empty one is closed. */
export interface PolicyView {
  readonly ingress?: readonly PolicyRule[] | undefined;
  readonly egress?: readonly PolicyRule[] | undefined;
}

const max = { max: limits.rules };

const rule: Decoder<PolicyRule> = object({
  groups: optional(list(name, max)),
  blocks: optional(list(object({ cidr, except: optional(list(cidr, max)) }), max)),
  ports: optional(list(object({ protocol, port: optional(port), endPort: optional(port) }), max)),
});

/** Decodes a {@link PolicyView}. */
export const decodePolicyView: Decoder<PolicyView> = object({
  ingress: optional(list(rule, max)),
  egress: optional(list(rule, max)),
});
