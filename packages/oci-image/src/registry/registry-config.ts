import type { Secret } from "@kip/base";
import type { CredentialSource } from "./credentials.ts";

/** How to reach one registry and who we are there. */
export interface RegistryConfig {
  /** The registry as it stands in image names, with its port: `docker.io`, `localhost:5000`. */
  readonly host: string;
  /**
   * Base URL to use instead of `https://<host>`. The only way to plain HTTP: a registry is never
   * spoken to without TLS unless somebody wrote `http://` here.
   */
  readonly endpoint?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | Secret | undefined;
  /** Asked for credentials when the registry wants a log-in and no `username` is given. */
  readonly credentials?: CredentialSource | undefined;
  /**
   * Base URLs of registries that have the same repositories, tried in order before the registry
   * itself. Credentials and certificates of a mirror are those of its own entry, by its host.
   */
  readonly mirrors?: readonly string[] | undefined;
  /** Certificates in PEM that are trusted for this registry besides the system's. */
  readonly ca?: string | undefined;
}
