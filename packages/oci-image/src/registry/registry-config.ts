import type { Secret } from "@kip/base";

/** How to reach one registry and who we are there. */
export interface RegistryConfig {
  /** The registry as it stands in image names, with its port: `docker.io`, `localhost:5000`. */
  readonly host: string;
  /**
   * Base URL to use instead of `https://<host>`. The only way to plain HTTP: a registry is never
   * spoken to without TLS unless somebody wrote `http://` here.
   */
  readonly endpoint?: string;
  readonly username?: string;
  readonly password?: string | Secret;
  /** Certificates in PEM that are trusted for this registry besides the system's. */
  readonly ca?: string;
}
