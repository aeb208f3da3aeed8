import type { CloudDriver, Instance, Volume } from "../../cloud-driver.ts";
import type { SimulatedCloud } from "../../simulated/simulated-cloud.ts";

/** What a defect works with. */
export interface MutantContext {
  /** A handle without the defect. */
  readonly sound: CloudDriver;
  /** A handle of another owner, who has no business here. */
  readonly stranger: CloudDriver;
  readonly cloud: SimulatedCloud;
  /** Shared by all handles on the cloud. */
  readonly notes: Map<string, string>;
}

/** A defect that a driver could have. */
export interface Mutant {
  /** What the driver does wrong. */
  readonly name: string;
  /** Names of clauses that it breaks; they may be shortened. */
  readonly breaks: readonly string[];
  /** The calls of a handle that differ. */
  readonly mutate: (context: MutantContext) => Partial<CloudDriver>;
}

/** The handle with its defect. */
export function withDefect(context: MutantContext, { mutate }: Mutant): CloudDriver {
  const changed = mutate(context);
  return new Proxy(context.sound, {
    get: (target, property): unknown =>
      Reflect.get(changed, property) ?? Reflect.get(target, property),
  });
}

/** Calls that show instances, each of them changed. */
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

/** Calls that show volumes, each of them changed. */
export function changedVolumes(
  sound: CloudDriver,
  change: (volume: Volume) => Volume,
): Pick<CloudDriver, "createVolume" | "listVolumes"> {
  return {
    createVolume: async (request) => change(await sound.createVolume(request)),
    listVolumes: async () => (await sound.listVolumes()).map(change),
  };
}

/** Tokens that the cloud gets with a mark of their own, which is hidden again. */
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
