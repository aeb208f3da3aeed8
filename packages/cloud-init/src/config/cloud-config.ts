/** A file that the user data asks for. */
export interface WriteFile {
  /** Absolute. */
  readonly path: string;
  readonly content: Uint8Array;
  /** Permission bits. @default 0o644 */
  readonly mode: number;
  /** `user` or `user:group`, names or numbers. @default root */
  readonly owner?: string | undefined;
}

/** A user that the user data asks for. */
export interface CloudUser {
  readonly name: string;
  /** Hash as crypt(5) has it. @default none: no password is right */
  readonly passwordHash?: string | undefined;
  /** Makes the password unusable, also of a user that exists. @default false */
  readonly isLocked?: boolean | undefined;
  readonly sshAuthorizedKeys: readonly string[];
  /** Comment, often a full name. */
  readonly gecos?: string | undefined;
  /** @default below /home */
  readonly homedir?: string | undefined;
  /** @default true, but for system users */
  readonly hasHome?: boolean | undefined;
  /** Name of a group; made if it is missing. @default a group of the user's own name */
  readonly primaryGroup?: string | undefined;
  /** Further groups; made if they are missing. */
  readonly groups: readonly string[];
  /** A number below 1000, and no home. @default false */
  readonly isSystem?: boolean | undefined;
  /** @default /bin/sh */
  readonly shell?: string | undefined;
  /** @default the next free one */
  readonly uid?: number | undefined;
}

/** A body of user data that begins with "#!". */
export type CloudScript = Uint8Array;

/** User data as it is applied at a machine's start. */
export interface CloudConfig {
  readonly hostname?: string | undefined;
  readonly writeFiles: readonly WriteFile[];
  readonly users: readonly CloudUser[];
  /** Keys of root. */
  readonly sshAuthorizedKeys: readonly string[];
  /** Run in this order, after everything else: a text goes to `sh -c`, a list is a program and its arguments. */
  readonly runCommands: readonly (string | readonly string[])[];
  /** Run after the commands, in this order. */
  readonly scripts: readonly CloudScript[];
  /** Sentences about what was skipped. */
  readonly warnings: readonly string[];
}

/** User data that asks for nothing. */
export const emptyConfig: CloudConfig = {
  writeFiles: [],
  users: [],
  sshAuthorizedKeys: [],
  runCommands: [],
  scripts: [],
  warnings: [],
};

/** Largest user data that is read, bytes, compressed and unpacked. EC2 gives 16 KiB, GCE 256 KiB. */
export const maxUserDataBytes = 1 << 20;

/** Largest content of all files together, bytes, unpacked: it is in memory until it is written. */
export const maxContentBytes = 8 << 20;
