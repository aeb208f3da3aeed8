import type { RouteTable } from "@aws-sdk/client-ec2";
import type { Logger } from "@kip/base";
import { CloudError } from "@kip/cloud";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { awsCodeOf } from "../errors/cloud-error-of.ts";
import type { Instances } from "../instance/instances.ts";
import type { SeenInstance } from "../instance/to-instance.ts";
import { routeTables, tableOf } from "./place.ts";

/** What {@link Routes} works with. */
export interface RoutesOptions {
  readonly ec2: Ec2;
  readonly instances: Instances;
  readonly vpcId: string;
  readonly logger: Logger;
}

/** A route of a table that leads a range to an instance. */
interface InstanceRoute {
  readonly table: string;
  readonly cidr: string;
  readonly instanceId: string | undefined;
}

/**
 * Routes by way of instances, in the table of their subnet, also where that is the VPC's main one. A route cannot carry a tag: it is
 * this driver's if it leads to an instance of this owner, by whose tag it is known which routes there must be.
 */
export class Routes {
  readonly #options: RoutesOptions;
  /** Of each instance that has routes, or is getting them. */
  readonly #made = new Map<string, Promise<void>>();

  constructor(options: RoutesOptions) {
    this.#options = options;
    const { instances, logger } = options;
    // Also those of a process that ended before it had made them.
    instances.onRouted = (seen) => {
      this.ensure(seen).catch((err: unknown) =>
        logger.warn("Could not make the routes of an instance", { vmId: seen.instance.id, err }),
      );
    };
    instances.onGone = (id) => {
      if (this.#made.has(id)) void this.remove(id);
    };
  }

  /**
   * Makes the routes of an instance that has some.
   *
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` for a range that is led elsewhere
   */
  async ensure(seen: SeenInstance): Promise<void> {
    const { id } = seen.instance;
    if (seen.routes.length === 0) return;
    const made = this.#made.get(id) ?? this.#make(seen);
    this.#made.set(id, made);
    try {
      await made;
    } catch (error) {
      this.#made.delete(id); // made by the next attempt
      throw error;
    }
  }

  /** Removes all routes that lead to an instance. A failure is logged: the machine must end in any case. */
  async remove(id: string): Promise<void> {
    const { ec2, vpcId, logger } = this.#options;
    this.#made.delete(id);
    const purpose = `remove the routes of instance "${id}"`;
    try {
      const all = (await routeTables(ec2, vpcId)).flatMap(routesOf);
      for (const { table, cidr } of all.filter(({ instanceId }) => instanceId === id))
        await ec2
          .call("DeleteRoute", { RouteTableId: table, ...destination(cidr) }, { purpose })
          .catch((error: unknown) => {
            if (awsCodeOf(error) !== "InvalidRoute.NotFound") throw error;
          });
    } catch (err) {
      logger.warn("Could not remove the routes of an instance", { vmId: id, err });
    }
  }

  async #make({ instance: { id }, ...seen }: SeenInstance): Promise<void> {
    const { ec2, vpcId } = this.#options;
    const { routes, subnetId, sourceDestCheck } = seen;
    if (sourceDestCheck) await letForward(ec2, id);
    const purpose = `lead packets to instance "${id}"`;
    const table = tableOf(subnetId, await routeTables(ec2, vpcId));
    if (table?.RouteTableId === undefined)
      throw new CloudError("CLOUD_NOT_FOUND", `Cannot ${purpose}: its subnet has no route table`);
    const known = new Map(routesOf(table).map((each) => [each.cidr, each.instanceId]));
    for (const cidr of routes) {
      if (known.get(cidr) === id) continue;
      const isThere = known.has(cidr);
      if (isThere) await this.#checkIsOurs(cidr, known.get(cidr), purpose);
      await ec2.call(
        isThere ? "ReplaceRoute" : "CreateRoute",
        { RouteTableId: table.RouteTableId, ...destination(cidr), InstanceId: id },
        { purpose },
      );
    }
  }

  /** A route of an instance of ours that has ended may be replaced; EC2 shows such an instance for about an hour. */
  async #checkIsOurs(cidr: string, target: string | undefined, purpose: string): Promise<void> {
    const seen = target === undefined ? undefined : await this.#options.instances.get(target);
    if (seen && !["pending", "running"].includes(seen.instance.state)) return;
    throw new CloudError(
      "CLOUD_INVALID_REQUEST",
      `Cannot ${purpose}: the range ${cidr} is led elsewhere${target === undefined ? "" : `, to ${target}`}`,
      { remedy: "Remove that route, or change pod.elotl.co/cloud-route" },
    );
  }
}

function routesOf({ RouteTableId: table = "", Routes: routes = [] }: RouteTable): InstanceRoute[] {
  return routes.flatMap(({ DestinationCidrBlock, DestinationIpv6CidrBlock, InstanceId }) => {
    const cidr = DestinationCidrBlock ?? DestinationIpv6CidrBlock ?? "";
    return cidr === "" ? [] : [{ table, cidr, instanceId: InstanceId }];
  });
}

function destination(cidr: string) {
  return cidr.includes(":") ? { DestinationIpv6CidrBlock: cidr } : { DestinationCidrBlock: cidr };
}

/** Lets an instance send and receive packets of other addresses than its own. */
export async function letForward(ec2: Ec2, id: string, signal?: AbortSignal): Promise<void> {
  await ec2.call(
    "ModifyInstanceAttribute",
    { InstanceId: id, SourceDestCheck: { Value: false } },
    { purpose: `let instance "${id}" forward packets`, signal },
  );
}
