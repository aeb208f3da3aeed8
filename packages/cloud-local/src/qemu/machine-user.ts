import { textBefore } from "@kip/base";

/** The user of a QEMU process. No account has these IDs. */
export interface MachineUser {
  readonly uid: number;
  readonly gid: number;
}

/** The highest ID of an account. */
export const lastAccountId = 65_535;

/**
 * Default for the first of the machines' user IDs. There is one ID for each address of the range. Two local clouds never have
 * machines with the same address, so they never share a user. Only the last 28 bits of an address count. systemd documents
 * 1879048192 to 2147483646 as free, above the ranges for containers and dynamic users.
 *
 * @see https://systemd.io/UIDS-GIDS
 */
export function defaultFirstUserId({ range }: { readonly range: string }): number {
  const octets = textBefore(range, "/").split(".").map(Number);
  return 0x7000_0000 + (octets.reduce((sum, octet) => sum * 256 + octet, 0) % 0x1000_0000);
}

/** Higher IDs are negative in programs that use 32 bits. */
export const lastUserId = 2 ** 31 - 2;

/** The user of the process that creates templates. */
export function templateUser(firstUserId: number): MachineUser {
  return { uid: firstUserId, gid: firstUserId };
}

/** The user of the machine in a slot. Each machine has a different one. */
export function userOfSlot(firstUserId: number, slot: number): MachineUser {
  const id = firstUserId + 1 + slot;
  return { uid: id, gid: id };
}

/** A machine's user: the one in its record, or else that of its slot. */
export function userOfMachine(
  { userId, slot }: { readonly userId?: number | undefined; readonly slot: number },
  firstUserId: number,
): MachineUser {
  return userId === undefined ? userOfSlot(firstUserId, slot) : { uid: userId, gid: userId };
}
