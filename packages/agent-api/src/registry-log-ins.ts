import type { DesiredRegistry } from "./desired-pod.ts";

/**
 * The registry, once for each account that may be valid for an image, in the order in which to try them. Once if there is no
 * account.
 */
export function registryLogIns(
  registries: readonly DesiredRegistry[],
  image: { readonly registry: string; readonly repository: string },
): readonly (readonly DesiredRegistry[])[] {
  const own = registries.find(({ host }) => host === image.registry);
  const accounts = (own?.accounts ?? []).filter(({ path = "" }) =>
    image.repository.startsWith(path),
  );
  if (!own || accounts.length === 0) return [registries];
  const { username, password } = own;
  const last = username === undefined ? [] : [{ username, password: password ?? "" }];
  return [...accounts, ...last].map((account) => {
    const logIn = { ...own, username: account.username, password: account.password };
    return registries.map((each) => (each === own ? logIn : each));
  });
}
