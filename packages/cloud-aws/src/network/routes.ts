import type { RouteTable } from "@aws-sdk/client-ec2";
import { backoffDelay, pause, type Clock, type Logger } from "@kip/base";
import { CloudError } from "@kip/cloud";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { awsCodeOf } from "../errors/cloud-error-of.ts";
import type { Instances } from "../instance/instances.ts";
import type { SeenInstance } from "../instance/to-instance.ts";
import { ownTags } from "../tags.ts";
import { routeTables, tableOf } from "./place.ts";

/** Options of {@link Routes}. */
export interface RoutesOptions {
  readonly ec2: Ec2;
  readonly instances: Instances;
  readonly vpcId: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Stops the retries of failed removals. */
  readonly signal: AbortSignal;
}

/** A route of a table. */
interface KnownRoute {
  readonly table: string;
  readonly cidr: string;
  readonly instanceId: string | undefined;
  /** For a blackhole without an instance: the interface that it led to. */
  readonly lostInterface: string | undefined;
}

/** An instance that has routes, or is getting or losing them. */
interface Target {
  readonly id: string;
  /** Its interface. An ended instance no longer names it. */
  interface: string | undefined;
  /** Aborts when its routes are to be removed. */
  readonly ending: AbortController;
  /** Set when its routes are being made, and afterwards. */
  making?: Promise<void> | undefined;
  /** The latest attempt to remove its routes. Resolves with whether none is left. Never rejects. */
  removing?: Promise<boolean> | undefined;
}

/** Delays before routes are removed again after a failure, milliseconds. */
const backoff = { initialMs: 1000, maxMs: 300_000 } as const;

/**
 * Routes through instances, in their subnet's table, which may be the VPC's main one. A route cannot have a tag. It is this
 * driver's if it leads to an instance of this owner, and the instance's tag lists the routes that must exist. The route of an
 * ended instance is a blackhole that only names the instance's interface, and is recognized by that.
 */
export class Routes {
  readonly #options: RoutesOptions;
  readonly #targets = new Map<string, Target>();
  /** The instance to which a range is or will be routed, by table and range. One at a time. */
  readonly #holders = new Map<string, Target>();

  constructor(options: RoutesOptions) {
    this.#options = options;
    const { instances, logger } = options;
    // Includes instances of a process that ended before it had made their routes.
    instances.onRouted = (seen) => {
      this.ensure(seen).catch((err: unknown) =>
        logger.warn("Could not make the routes of an instance", { vmId: seen.instance.id, err }),
      );
    };
    instances.onGone = (id) => {
      if (this.#targets.has(id)) void this.remove(id);
    };
  }

  /**
   * Makes an instance's routes, if it has any.
   *
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` for a range that is routed elsewhere, `CLOUD_NOT_FOUND` for an instance that
   * ends
   */
  async ensure(seen: SeenInstance): Promise<void> {
    const { instances } = this.#options;
    const { id } = seen.instance;
    if (seen.routes.length === 0) return;
    if (!instances.isOwn(id) || instances.isEnding(id)) throw endsError(id);
    const target = this.#targetOf(id);
    target.making ??= this.#make(target, seen);
    try {
      await target.making;
    } catch (error) {
      target.making = undefined; // the next attempt makes them
      throw error;
    }
  }

  /**
   * Removes all routes to an instance, after waiting for routes that are being made. A failure is logged, because the machine
   * must end in any case, and the removal is retried later.
   */
  async remove(id: string): Promise<void> {
    const target = this.#targetOf(id);
    const isFirst = target.removing === undefined;
    target.ending.abort(endsError(id));
    target.removing ??= this.#remove(target, 0);
    if (await target.removing) this.#forget(target);
    else if (isFirst) void this.#removeLater(target);
  }

  #targetOf(id: string): Target {
    const target = this.#targets.get(id) ?? {
      id,
      interface: this.#options.instances.routedInterfaceOf(id),
      ending: new AbortController(),
    };
    this.#targets.set(id, target);
    return target;
  }

  #forget(target: Target): void {
    this.#targets.delete(target.id);
    for (const [range, holder] of this.#holders) if (holder === target) this.#holders.delete(range);
  }

  async #removeLater(target: Target): Promise<void> {
    const { clock, signal } = this.#options;
    for (
      let failures = 0;
      await pause(backoffDelay(failures, backoff), clock, signal);
      failures++
    ) {
      target.removing = this.#remove(target, failures + 1);
      if (!(await target.removing)) continue;
      this.#forget(target);
      return;
    }
  }

  async #remove(target: Target, failures: number): Promise<boolean> {
    const { ec2, logger } = this.#options;
    const { id } = target;
    const purpose = `remove the routes of instance "${id}"`;
    await target.making?.catch(() => {}); // its caller gets the failure
    try {
      for (const route of await this.#all()) {
        const { table, cidr } = route;
        const holder = this.#holders.get(rangeOf(route)) ?? target;
        // If another instance has the range by now, it replaces the route.
        if (!leadsTo(route, target) || holder !== target) continue;
        await ec2
          .call("DeleteRoute", { RouteTableId: table, ...destination(cidr) }, { purpose })
          .catch((error: unknown) => {
            if (awsCodeOf(error) !== "InvalidRoute.NotFound") throw error;
          });
      }
      return true;
    } catch (err) {
      logger.warn("Could not remove the routes of an instance", { vmId: id, failures, err });
      return false;
    }
  }

  async #make(target: Target, { routes, subnetId, ...seen }: SeenInstance): Promise<void> {
    const { ec2, vpcId } = this.#options;
    const { id } = target;
    if (seen.sourceDestCheck) await letForward(ec2, id);
    target.interface = seen.interfaces[0] ?? seen.routedInterface;
    if (target.interface !== undefined && target.interface !== seen.routedInterface)
      await noteInterface(ec2, id, target.interface);
    const tables = await routeTables(ec2, vpcId);
    const table = tableOf(subnetId, tables)?.RouteTableId;
    if (table === undefined)
      throw new CloudError(
        "CLOUD_NOT_FOUND",
        `Cannot ${leadPurpose(id)}: its subnet has no route table`,
      );
    const known = tables.flatMap(routesOf);
    for (const cidr of routes) await this.#lead(target, { table, cidr }, known);
  }

  /** Routes a range to an instance, which then holds the range. */
  async #lead(
    target: Target,
    { table, cidr }: Pick<KnownRoute, "table" | "cidr">,
    known: readonly KnownRoute[],
  ): Promise<void> {
    const { ec2 } = this.#options;
    const range = rangeOf({ table, cidr });
    target.ending.signal.throwIfAborted();
    const before = this.#holders.get(range);
    if (before && before !== target && !before.ending.signal.aborted)
      throw elsewhereError(target.id, cidr, before.id);
    this.#holders.set(range, target);
    try {
      const isTaken = before !== undefined && before !== target;
      if (isTaken) await before.removing; // the removal does not affect the new route
      const all = isTaken ? await this.#all() : known;
      const route = all.find((each) => rangeOf(each) === range);
      if (route?.instanceId === target.id) return;
      if (route && !(await this.#isStale(route)))
        throw elsewhereError(target.id, cidr, route.instanceId);
      target.ending.signal.throwIfAborted();
      await ec2.call(
        route ? "ReplaceRoute" : "CreateRoute",
        { RouteTableId: table, ...destination(cidr), InstanceId: target.id },
        { purpose: leadPurpose(target.id) },
      );
    } catch (error) {
      if (this.#holders.get(range) === target) this.#holders.delete(range);
      throw error;
    }
  }

  /** Whether a route led to one of our ended instances. EC2 shows such an instance for about an hour. */
  async #isStale({ instanceId, lostInterface }: KnownRoute): Promise<boolean> {
    const { instances } = this.#options;
    if (instanceId !== undefined) return hasEnded(await instances.get(instanceId));
    if (lostInterface === undefined) return false;
    if (this.#targets.values().some((each) => each.interface === lostInterface)) return true;
    const all = await instances.all();
    return all.some((each) => each.routedInterface === lostInterface && hasEnded(each));
  }

  async #all(): Promise<readonly KnownRoute[]> {
    const { ec2, vpcId } = this.#options;
    return (await routeTables(ec2, vpcId)).flatMap(routesOf);
  }
}

function routesOf({ RouteTableId: table = "", Routes: routes = [] }: RouteTable): KnownRoute[] {
  return routes.flatMap(({ InstanceId: instanceId, NetworkInterfaceId, State, ...route }) => {
    const cidr = route.DestinationCidrBlock ?? route.DestinationIpv6CidrBlock ?? "";
    const isLost = instanceId === undefined && State === "blackhole";
    const lostInterface = isLost ? NetworkInterfaceId : undefined;
    return cidr === "" ? [] : [{ table, cidr, instanceId, lostInterface }];
  });
}

function rangeOf({ table, cidr }: Pick<KnownRoute, "table" | "cidr">): string {
  return `${table} ${cidr}`;
}

function leadsTo({ instanceId, lostInterface }: KnownRoute, target: Target): boolean {
  return (
    instanceId === target.id || (lostInterface !== undefined && lostInterface === target.interface)
  );
}

function hasEnded(seen: SeenInstance | undefined): boolean {
  return seen !== undefined && !["pending", "running"].includes(seen.instance.state);
}

function leadPurpose(id: string): string {
  return `lead packets to instance "${id}"`;
}

function endsError(id: string): CloudError {
  return new CloudError("CLOUD_NOT_FOUND", `Cannot ${leadPurpose(id)}: it ends`);
}

function elsewhereError(id: string, cidr: string, target: string | undefined): CloudError {
  return new CloudError(
    "CLOUD_INVALID_REQUEST",
    `Cannot ${leadPurpose(id)}: the range ${cidr} is led elsewhere${target === undefined ? "" : `, to ${target}`}`,
    { remedy: "Remove that route, or change pod.elotl.co/cloud-route" },
  );
}

function destination(cidr: string) {
  return cidr.includes(":") ? { DestinationIpv6CidrBlock: cidr } : { DestinationCidrBlock: cidr };
}

/** Allows an instance to send and receive packets with addresses other than its own. */
export async function letForward(ec2: Ec2, id: string, signal?: AbortSignal): Promise<void> {
  await ec2.call(
    "ModifyInstanceAttribute",
    { InstanceId: id, SourceDestCheck: { Value: false } },
    { purpose: `let instance "${id}" forward packets`, signal },
  );
}

/** Records the interface of an instance in a tag, which outlives this process and the instance's own entry. */
async function noteInterface(ec2: Ec2, id: string, networkInterface: string): Promise<void> {
  await ec2.call(
    "CreateTags",
    { Resources: [id], Tags: [{ Key: ownTags.routedInterface, Value: networkInterface }] },
    { purpose: `note the interface of instance "${id}"` },
  );
}
