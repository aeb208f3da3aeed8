import type { CloudDriver, Instance, Volume } from "../../cloud-driver.ts";
import type { SimulatedCloud } from "../../simulated/simulated-cloud.ts";

/** Dependencies of a defect. */
export interface MutantContext {
  /** A handle without the defect. */
  readonly sound: CloudDriver;
  /** A handle of another owner, which must not see this owner's objects. */
  readonly stranger: CloudDriver;
  readonly cloud: SimulatedCloud;
  /** Shared by all handles on the cloud. */
  readonly notes: Map<string, string>;
}

/** A defect that a driver could have. */
export interface Mutant {
  /** The driver's defect. */
  readonly name: string;
  /** Names of clauses that it breaks. They may be shortened. */
  readonly breaks: readonly string[];
  /** The calls of a handle that behave differently. */
  readonly mutate: (context: MutantContext) => Partial<CloudDriver>;
}

/** A handle with the defect. */
export function withDefect(context: MutantContext, { mutate }: Mutant): CloudDriver {
  const changed = mutate(context);
  return new Proxy(context.sound, {
    get: (target, property): unknown =>
      Reflect.get(changed, property) ?? Reflect.get(target, property),
  });
}

/** The calls that return instances, with each instance changed. */
export function changedInstances(
  sound: CloudDriver,
  change: (instance: Instance) => Instance,
): Pick<CloudDriver, "launch" | "waitForRunning" | "describe" | "list"> {
  return {
    launch: async (request, signal) => change(await sound.launch(request, signal)),
    waitForRunning: async (id, signal) => change(await sound.waitForRunning(id, signal)),
    describe: async (id) => {
      const instance = await sound.describe(id);
      return instance && change(instance);
    },
    list: async () => (await sound.list()).map(change),
  };
}

/** The calls that return volumes, with each volume changed. */
export function changedVolumes(
  sound: CloudDriver,
  change: (volume: Volume) => Volume,
): Pick<CloudDriver, "createVolume" | "listVolumes"> {
  return {
    createVolume: async (request) => change(await sound.createVolume(request)),
    listVolumes: async () => (await sound.listVolumes()).map(change),
  };
}

/** Adds a mark to the tokens that the cloud gets, and removes it from its answers. */
export function markedTokens(
  sound: CloudDriver,
  mark: () => string,
): Pick<CloudDriver, "launch" | "waitForRunning" | "describe" | "list"> {
  const hidden = changedInstances(sound, (instance) => ({
    ...instance,
    token: instance.token.split("~")[0] ?? "",
  }));
  return {
    ...hidden,
    launch: (request, signal) =>
      hidden.launch({ ...request, token: `${request.token}~${mark()}` }, signal),
  };
}
