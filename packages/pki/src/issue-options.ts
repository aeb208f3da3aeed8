/** Content of a certificate, see {@link CertificateAuthority.issue}. */
export interface IssueOptions {
  /** Subject's common name: Kubernetes' user name for clients. 1 to 265 characters. */
  readonly commonName: string;
  /** Subject's organizations: Kubernetes' groups for clients. @default none */
  readonly organizations?: readonly string[];
  /** Host names of the server. @default none */
  readonly dnsNames?: readonly string[];
  /** IPv4 and IPv6 addresses of the server. @default none */
  readonly ipAddresses?: readonly string[];
  /** Allowed uses of the certificate, at least one. */
  readonly usages: readonly CertificateUsage[];
  /** Validity from now on, milliseconds, above 0. Limited to the authority's own. */
  readonly validMs: number;
  /** How long before now its validity starts, milliseconds, to allow for clocks that differ. @default 5 minutes */
  readonly notBeforeSkewMs?: number;
}

/** The side of a TLS connection that may present a certificate. */
export type CertificateUsage = "client" | "server";
