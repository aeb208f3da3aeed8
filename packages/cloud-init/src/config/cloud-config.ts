/** A file in the user data. */
export interface WriteFile {
  /** Absolute. */
  readonly path: string;
  readonly content: Uint8Array;
  /** Permission bits. @default 0o644 */
  readonly mode: number;
  /** `user` or `user:group`, names or numbers. @default root */
  readonly owner?: string | undefined;
}

/** A user in the user data. */
export interface CloudUser {
  readonly name: string;
  /** Hash in the format of crypt(5). @default none: no password is accepted */
  readonly passwordHash?: string | undefined;
  /** Makes the password unusable, even that of an existing user. @default false */
  readonly isLocked?: boolean | undefined;
  readonly sshAuthorizedKeys: readonly string[];
  /** Comment, often a full name. */
  readonly gecos?: string | undefined;
  /** @default below /home */
  readonly homedir?: string | undefined;
  /** @default true, but for system users */
  readonly hasHome?: boolean | undefined;
  /** Name of a group, which is created if missing. @default a group with the user's name */
  readonly primaryGroup?: string | undefined;
  /** Additional groups, which are created if missing. */
  readonly groups: readonly string[];
  /** Whether it gets an ID below 1000 and no home. @default false */
  readonly isSystem?: boolean | undefined;
  /** @default /bin/sh */
  readonly shell?: string | undefined;
  /** @default the next free one */
  readonly uid?: number | undefined;
}

/** A user data body that begins with "#!". */
export type CloudScript = Uint8Array;

/** User data in the form in which it is applied at a machine's start. */
export interface CloudConfig {
  readonly hostname?: string | undefined;
  readonly writeFiles: readonly WriteFile[];
  readonly users: readonly CloudUser[];
  /** Keys of root. */
  readonly sshAuthorizedKeys: readonly string[];
  /** Run in this order, after everything else. A text is passed to `sh -c`, a list is a program with arguments. */
  readonly runCommands: readonly (string | readonly string[])[];
  /** Run after the commands, in this order. */
  readonly scripts: readonly CloudScript[];
  /** Sentences about settings that were skipped. */
  readonly warnings: readonly string[];
}

/** Empty user data. */
export const emptyConfig: CloudConfig = {
  writeFiles: [],
  users: [],
  sshAuthorizedKeys: [],
  runCommands: [],
  scripts: [],
  warnings: [],
};

/** Maximum size of user data, bytes, both compressed and unpacked. EC2 allows 16 KiB, GCE 256 KiB. */
export const maxUserDataBytes = 1 << 20;

/** Maximum total content of all files, bytes, unpacked. It is in memory until it is written. */
export const maxContentBytes = 8 << 20;
