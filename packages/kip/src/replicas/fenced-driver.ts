import {
  CloudError,
  wrapOperations,
  type ChangeTerm,
  type CloudDriver,
  type CloudOperation,
  type DedicatedHosts,
  type PrepareImagesRequest,
} from "@kip/cloud";

/** Operations that change something in the cloud. */
const changes: readonly CloudOperation[] = [
  "launch",
  "terminate",
  "growRootDisk",
  "setTags",
  "createVolume",
  "deleteVolume",
  "attachVolume",
  "detachVolume",
];

/**
 * A driver that stops changing the cloud once another process may be the leader. Its calls then fail with `CLOUD_UNAVAILABLE`.
 * A driver that delays or repeats requests checks its own {@link ChangeTerm} before each attempt.
 *
 * `routeServices` is not checked. It only changes this process's computer, where every kip makes the same rules from the same
 * Services. Its signal ends it.
 */
export function fencedDriver(driver: CloudDriver, term: ChangeTerm): CloudDriver {
  const begin = async <T>(operation: string, call: () => Promise<T>): Promise<T> => {
    if (term.isHeld()) return await call();
    const message = `Cannot ask the cloud (${operation}): another kip may run this node now`;
    throw new CloudError("CLOUD_UNAVAILABLE", message);
  };
  const fenced = wrapOperations(driver, changes, async (operation, call, args) =>
    begin(operation, async () => await call(...args)),
  );
  const { hosts } = driver;
  const fencedHosts: DedicatedHosts | undefined = hosts && {
    list: async () => await hosts.list(),
    releaseEmpty: async () => await begin("releaseEmpty", async () => await hosts.releaseEmpty()),
  };
  return new Proxy(fenced, {
    get: (target, property) => {
      if (property === "hosts") return fencedHosts;
      const value: unknown = Reflect.get(target, property);
      if (property !== "prepareImages" || value === undefined) return value;
      // It may start machines in the background.
      return (request: PrepareImagesRequest): void => {
        if (term.isHeld()) target.prepareImages?.(request);
      };
    },
  });
}
