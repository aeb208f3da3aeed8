import type { NetworkPolicy } from "@kip/k8s-types/network";
import type { TierPolicy } from "./tier-policy.ts";

const known = new WeakMap<NetworkPolicy | TierPolicy, readonly string[]>();

/** Names of ports in ingress rules. They refer to ports of the selected pod itself. */
export function portsNamedBy(policies: readonly (NetworkPolicy | TierPolicy)[]): readonly string[] {
  const names = new Set<string>();
  for (const policy of policies) {
    let own = known.get(policy);
    if (!own) {
      own = "tier" in policy ? namesOfTier(policy) : namesOfPolicy(policy);
      known.set(policy, own);
    }
    for (const name of own) names.add(name);
  }
  return [...names];
}

function namesOfTier({ ingress }: TierPolicy): readonly string[] {
  const ports = ingress.flatMap(({ match }) => match?.ports ?? []);
  return ports.flatMap((port) => ("name" in port ? [port.name] : []));
}

function namesOfPolicy({ spec }: NetworkPolicy): readonly string[] {
  const ports = (spec?.ingress ?? []).flatMap((rule) => rule.ports ?? []);
  return ports.flatMap(({ port }) => (typeof port === "string" ? [port] : []));
}
