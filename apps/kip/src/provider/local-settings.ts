import { decode } from "@kip/base";

const { boolean, integer, list, object, optional, oneOf, string } = decode;

/** Decodes the section `cloud.local` of `provider.yaml`. */
export const decodeLocalSettings = object(
  {
    /** Directory of the machines. */
    stateDir: optional(string),
    /** Directory of cell images. */
    imagesDir: optional(string),
    /** Network namespace. */
    namespace: optional(string),
    /** Addresses of cells and pods. */
    range: optional(string),
    /** Addresses of IPv6, besides. */
    ipv6Range: optional(string),
    /** Whether pods reach what the host reaches. */
    internet: optional(oneOf("auto", "off")),
    /** TCP ports of the host that pods reach. */
    hostPorts: optional(list(integer)),
    /** Ranges of the cluster's Services. */
    serviceRanges: optional(list(string)),
    /** Whether the host sends to these ranges by way of the namespace. */
    hostServices: optional(boolean),
    /** Addresses of the host at which NodePorts answer. */
    nodePortAddresses: optional(list(string)),
    /** The ClusterIP of the name server that `kip up` runs. */
    dnsService: optional(string),
    /** Whether machines are copied from templates. */
    templates: optional(boolean),
    /** Directory of the templates. */
    templatesDir: optional(string),
    /** Whether `kip local` may make things go wrong: only for a cluster to try Kip out. */
    faultInjection: optional(boolean),
  },
  { unknownKeys: "reject" },
);
