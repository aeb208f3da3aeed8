/** What an image runs on, in the words of Go and OCI. */
export interface Platform {
  /** For example `linux`. */
  readonly os: string;
  /** For example `amd64` or `arm64`. */
  readonly architecture: string;
  /** For example `v7`. */
  readonly variant?: string;
}
