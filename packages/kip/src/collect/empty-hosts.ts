import type { Logger } from "@kip/base";
import type { DedicatedHosts } from "@kip/cloud";

/**
 * Creates a function that releases dedicated hosts without instances, which still cost money, and logs each one. A host that
 * the cloud does not release yet is logged once.
 */
export function hostRelease(hosts: DedicatedHosts, logger: Logger): () => Promise<void> {
  let kept: ReadonlySet<string> = new Set();
  return async () => {
    const releases = await hosts.releaseEmpty();
    for (const { host, refusal } of releases) {
      const { id, instanceType, zone } = host;
      const fields = { host: id, instanceType, zone };
      if (refusal === undefined)
        logger.info("Gave back a dedicated host without instances", fields);
      else if (!kept.has(id))
        logger.warn("The cloud keeps a dedicated host without instances for now", {
          ...fields,
          reason: refusal,
        });
    }
    const refused = releases.filter(({ refusal }) => refusal !== undefined);
    kept = new Set(refused.map(({ host }) => host.id));
  };
}
