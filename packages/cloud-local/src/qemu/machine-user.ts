import { textBefore } from "@kip/base";

/** The user that a QEMU process runs as: numbers that no account has. */
export interface MachineUser {
  readonly uid: number;
  readonly gid: number;
}

/** Accounts have IDs up to this one. */
export const lastAccountId = 65_535;

/**
 * First of the user IDs of machines, by default: one for each address of the range, so that two local clouds, whose
 * machines never have the same address, never have a user in common either. Only the last 28 bits of an address count:
 * systemd, which knows of the uses of all ranges, has 1879048192 to 2147483646 as free, above everything that containers
 * and dynamic users are given.
 *
 * @see https://systemd.io/UIDS-GIDS
 */
export function defaultFirstUserId({ range }: { readonly range: string }): number {
  const octets = textBefore(range, "/").split(".").map(Number);
  return 0x7000_0000 + (octets.reduce((sum, octet) => sum * 256 + octet, 0) % 0x1000_0000);
}

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

/** The user of a machine: the one in its record, else that of its slot. */
export function userOfMachine(
  { userId, slot }: { readonly userId?: number | undefined; readonly slot: number },
  firstUserId: number,
): MachineUser {
  return userId === undefined ? userOfSlot(firstUserId, slot) : { uid: userId, gid: userId };
}
