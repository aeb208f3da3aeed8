/** The part of an image's configuration that says how to run it. Texts are as the image has them. */
export interface ImageConfig {
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  /** `NAME=value`. */
  readonly env: readonly string[];
  /** Absolute path; "/" when the image says nothing. */
  readonly workingDir: string;
  /** `user`, `uid`, `user:group`, …; empty for root. See `resolveUser`. */
  readonly user: string;
  /** For example `SIGQUIT` or `3`. */
  readonly stopSignal?: string;
  /**
   * Paths the image wants as volumes, clean and absolute. From a stranger: a mount of one goes
   * through no link of the root file system (CVE-2022-23648).
   */
  readonly volumes: readonly string[];
  /** `80/tcp`, … */
  readonly exposedPorts: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}
