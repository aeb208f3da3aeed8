import type { DesiredRegistry } from "@kip/agent-api";
import { defined } from "@kip/base";
import type { RegistryLogIn } from "@kip/cloud";
import { parseReference, type Reference } from "@kip/oci-image";
import { SecretAccounts } from "./secret-accounts.ts";

/** The registries of these images. Skips invalid names. */
export function registriesOf(images: readonly string[]): readonly string[] {
  return [...repositoriesByHost(images).keys()];
}

/**
 * The registries in a pod's document: the installation's own, and those of the pod's images, with the accounts to log in with.
 * As in the kubelet, the pod's image pull secrets (parsed `.dockerconfigjson` or legacy `.dockercfg` documents) come first,
 * those for longer paths before others. Then come the installation's own accounts, and here the cloud's are last.
 *
 * Only credentials for registries of the pod's images and for their mirrors are included, because root on the pod's cell can
 * read the document.
 */
export function mergeRegistries(
  images: readonly string[],
  sources: {
    readonly pullSecrets: readonly unknown[];
    readonly own: readonly DesiredRegistry[];
    readonly logIns?: ReadonlyMap<string, RegistryLogIn> | undefined;
  },
): readonly DesiredRegistry[] {
  const { pullSecrets, own, logIns } = sources;
  const wanted = repositoriesByHost(images);
  const byHost = new Map(
    withNeededCredentials(own, new Set(wanted.keys())).map((entry) => [entry.host, entry]),
  );
  const secrets = new SecretAccounts(pullSecrets);
  for (const [host, repositories] of wanted) {
    const accounts = secrets.find(host, repositories);
    const logIn = byHost.get(host)?.username === undefined ? logIns?.get(host) : undefined;
    const cloud = logIn && { username: logIn.username, password: logIn.password.reveal() };
    if (accounts.length === 0 && !cloud) continue;
    const known = { ...byHost.get(host), host, ...cloud };
    byHost.set(host, accounts.length === 0 ? known : { ...known, accounts });
  }
  return [...byHost.values()];
}

/** The parsed name of an image. Undefined if it is invalid. */
export function referenceOf(image: string): Reference | undefined {
  try {
    return parseReference(image);
  } catch {
    // The agent reports it with the kubelet's reason.
    return undefined;
  }
}

/** The image repositories of each registry, sorted. */
function repositoriesByHost(images: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const byHost = new Map<string, Set<string>>();
  for (const image of images) {
    const reference = referenceOf(image);
    if (!reference) continue;
    const known = byHost.get(reference.registry);
    if (known) known.add(reference.repository);
    else byHost.set(reference.registry, new Set([reference.repository]));
  }
  return new Map([...byHost].map(([host, repositories]) => [host, [...repositories].sort()]));
}

/** The installation's registries, with credentials only for these hosts and their mirrors. */
function withNeededCredentials(
  own: readonly DesiredRegistry[],
  hosts: ReadonlySet<string>,
): readonly DesiredRegistry[] {
  const mirrors = own
    .filter(({ host }) => hosts.has(host))
    .flatMap(({ mirrors = [] }) => mirrors.map((url) => URL.parse(url)?.host ?? url));
  const needed = new Set([...hosts, ...mirrors]);
  return own.map((entry) => {
    if (needed.has(entry.host)) return entry;
    return defined({ ...entry, username: undefined, password: undefined, accounts: undefined });
  });
}
