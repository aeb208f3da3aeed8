/** Numbers to run a process under. */
export interface ResolvedUser {
  readonly uid: number;
  readonly gid: number;
  /** Groups of the image's `/etc/group` that list the user. */
  readonly additionalGids: readonly number[];
  /** The user's folder as `/etc/passwd` has it. */
  readonly home?: string;
  /** The user's name as `/etc/passwd` has it. */
  readonly name?: string;
}

/**
 * Looks up `user`, `uid`, `user:group`, … in the image's `/etc/passwd` and `/etc/group`.
 *
 * @throws {KipError} code `IMAGE_USER_UNKNOWN`
 */
export async function resolveUser(_rootfs: string, _user: string): Promise<ResolvedUser> {
  throw new Error("not yet");
}
