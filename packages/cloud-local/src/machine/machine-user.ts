/** Whom a QEMU process runs as: numbers that no account has. */
export interface MachineUser {
  readonly uid: number;
  readonly gid: number;
}

/**
 * First of the user IDs of machines, by default. systemd, which knows of the uses of all ranges, has
 * 1879048192 to 2147483646 as free: above everything that containers and dynamic users are given.
 *
 * @see https://systemd.io/UIDS-GIDS
 */
export const defaultFirstUserId = 1_879_075_584;

/** Above this, IDs are negative to programs that hold them in 32 bits. */
export const lastUserId = 2 ** 31 - 2;

/** The user of the process that makes templates. */
export function templateUser(firstUserId: number): MachineUser {
  return { uid: firstUserId, gid: firstUserId };
}

/** The user of the machine that has the slot: no two machines share one. */
export function userOfSlot(firstUserId: number, slot: number): MachineUser {
  const id = firstUserId + 1 + slot;
  return { uid: id, gid: id };
}
