import type { ContainerUser } from "./container-spec.ts";

/**
 * Resolves an image's user (`""`, `1000`, `www-data`, `user:group`) with the passwd and group files of
 * a root file system, without following links out of it. Empty means root.
 * @returns the identity, with the groups that list the user, and the home directory (`/` if unknown)
 * @throws {KipError} `USER_UNKNOWN` for a name that is not there
 */
export function findUser(
  rootfs: string,
  user: string,
): Promise<ContainerUser & { readonly home: string }> {
  return Promise.reject(new Error(`not built yet: ${rootfs} ${user}`));
}
