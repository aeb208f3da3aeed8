import type { Secret } from "@kip/base";
import type { CredentialSource } from "./credentials.ts";

/** How to reach a registry and log in to it. */
export interface RegistryConfig {
  /** The registry as in image names, with its port: `docker.io`, `localhost:5000`. */
  readonly host: string;
  /**
   * Base URL to use instead of `https://<host>`. Only a URL with `http://` here allows plain HTTP. All other registries use
   * TLS.
   */
  readonly endpoint?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | Secret | undefined;
  /** Called when the registry requires a log-in and there is no `username`. */
  readonly credentials?: CredentialSource | undefined;
  /**
   * Base URLs of mirrors with the same repositories, tried in order before the registry itself. A mirror's credentials and
   * certificates come from the entry with its host.
   */
  readonly mirrors?: readonly string[] | undefined;
  /** Additional trusted certificates for this registry, PEM. */
  readonly ca?: string | undefined;
}
