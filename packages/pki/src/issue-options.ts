/** What a certificate says; see {@link CertificateAuthority.issue}. */
export interface IssueOptions {
  /** Subject's common name: Kubernetes' user name for clients. 1 to 265 characters. */
  readonly commonName: string;
  /** Subject's organizations: Kubernetes' groups for clients. @default none */
  readonly organizations?: readonly string[];
  /** Host names a server answers to. @default none */
  readonly dnsNames?: readonly string[];
  /** IPv4 and IPv6 addresses a server answers to. @default none */
  readonly ipAddresses?: readonly string[];
  /** What the certificate may be used for; one at least. */
  readonly usages: readonly CertificateUsage[];
  /** How long it is valid from now on, milliseconds, above 0; never longer than its authority. */
  readonly validMs: number;
  /** How far in the past its validity starts, for clocks that differ. @default 5 minutes */
  readonly notBeforeSkewMs?: number;
}

/** The side of a TLS connection that a certificate may be shown by. */
export type CertificateUsage = "client" | "server";
