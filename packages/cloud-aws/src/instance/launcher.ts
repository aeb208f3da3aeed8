import type { Clock } from "@kip/base";
import { checkLaunchRequest, CloudError, type Instance, type LaunchRequest } from "@kip/cloud";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { awsCodeOf } from "../errors/cloud-error-of.ts";
import type { Hosts } from "../host/hosts.ts";
import type { Images } from "../image/images.ts";
import type { CellSubnet } from "../network/place.ts";
import type { Subnets } from "../network/subnets.ts";
import type { SecurityGroups } from "../network/security-groups.ts";
import type { Instances } from "./instances.ts";
import { clientTokenOf, generationOf, runRequest } from "./run-request.ts";
import { toInstance, type SeenInstance } from "./to-instance.ts";

/** What {@link Launcher} works with. */
export interface LauncherOptions {
  readonly ec2: Ec2;
  readonly owner: string;
  readonly subnets: Subnets;
  readonly images: Images;
  readonly instances: Instances;
  readonly securityGroups: SecurityGroups;
  /** Where dedicated instances go. @default dedicated tenancy */
  readonly hosts: Hosts | undefined;
  /** Whether instances get addresses of IPv6 where their subnet has them. */
  readonly ipv6: boolean;
  readonly clock: Clock;
  readonly consistencyMs: number;
}

interface LaunchAttempt {
  readonly clientToken: string;
  readonly signal?: AbortSignal | undefined;
}

/** More instances of one Cell than can have ended within the hour for which EC2 shows them. */
const mostGenerations = 50;

/**
 * Starts instances, one for a token. EC2 starts at most one instance for a client token, whatever fails or repeats. Each
 * attempt differs in a tag, so EC2 refuses all but the first one with `IdempotentParameterMismatch`, and the instance of the
 * first one is looked up by its tag. If that has ended, the next client token of the same Cell has its turn: every process
 * goes through them in the same order.
 */
export class Launcher {
  readonly #options: LauncherOptions;

  constructor(options: LauncherOptions) {
    this.#options = options;
  }

  async launch(request: LaunchRequest, signal?: AbortSignal): Promise<Instance> {
    signal?.throwIfAborted();
    checkLaunchRequest(request);
    for (let generation = 0; generation < mostGenerations; generation++) {
      const clientToken = clientTokenOf(this.#options.owner, request.token, generation);
      const started = await this.#start(request, clientToken, signal);
      if (started) return started.instance;
    }
    throw new CloudError(
      "CLOUD_UNAVAILABLE",
      `Cannot start an instance: ${mostGenerations} instances of "${request.name}" have ended`,
    );
  }

  /** The instance of a client token; undefined if it has ended. */
  async #start(
    request: LaunchRequest,
    clientToken: string,
    signal?: AbortSignal,
  ): Promise<SeenInstance | undefined> {
    try {
      return await this.#run(request, clientToken, signal);
    } catch (error) {
      if (!CloudError.is(error)) throw error;
      if (awsCodeOf(error).startsWith("InvalidAMIID.")) this.#options.images.forget(request.image);
      if (awsCodeOf(error) === "InvalidGroup.NotFound") this.#options.securityGroups.forget();
      if (awsCodeOf(error) === "IdempotentInstanceTerminated") return undefined;
      if (awsCodeOf(error) === "IdempotentParameterMismatch")
        return await this.#earlier(request.token, clientToken, signal);
      if (!error.retryable && error.code !== "CLOUD_UNKNOWN") throw error;
      // This attempt or an earlier one may have started it: an instance that exists is taken before the failure is reported.
      const known = await this.#options.instances.ofToken(request.token, signal).catch(() => []);
      const living = known.find(({ instance }) => isAlive(instance));
      if (living) return living;
      throw error;
    }
  }

  /** In the zone's subnet with the most free addresses; in the next one if that has none left. */
  async #run(
    request: LaunchRequest,
    clientToken: string,
    signal?: AbortSignal,
  ): Promise<SeenInstance> {
    const candidates = await this.#options.subnets.inZone(request.zone);
    for (const [index, subnet] of candidates.entries()) {
      try {
        return await this.#place(subnet, request, { clientToken, signal });
      } catch (error) {
        const isFull = awsCodeOf(error) === "InsufficientFreeAddressesInSubnet";
        if (!isFull || index === candidates.length - 1) throw error;
      }
    }
    throw new RangeError("A zone without subnets");
  }

  /** On a host of our own, where dedicated instances have such. */
  async #place(
    subnet: CellSubnet,
    request: LaunchRequest,
    attempt: LaunchAttempt,
  ): Promise<SeenInstance> {
    const { hosts, instances } = this.#options;
    if (!hosts || request.launchType !== "dedicated")
      return await this.#runIn(subnet, request, attempt);
    // A launch that is repeated must not allocate a host for an instance that has one.
    const known = await instances.ofToken(request.token, attempt.signal);
    const living = known.find(({ instance }) => isAlive(instance));
    if (living) return living;
    const { instanceType, token, tags } = request;
    return await hosts.use(
      { instanceType, zone: subnet.zone, token, nametag: tags["kip-nametag"] },
      async (hostId) => await this.#runIn(subnet, request, { ...attempt, hostId }),
      attempt.signal,
    );
  }

  async #runIn(
    subnet: CellSubnet,
    request: LaunchRequest,
    { clientToken, signal, hostId }: LaunchAttempt & { readonly hostId?: string },
  ): Promise<SeenInstance> {
    const { ec2, owner, images, securityGroups, instances, clock } = this.#options;
    const image = await images.facts(request.image);
    const at = new Date(clock.now());
    const runPlace = {
      owner,
      ...subnet,
      hasIpv6: this.#options.ipv6 && subnet.hasIpv6,
      securityGroups: await securityGroups.get(),
      hostId,
    };
    const { instanceType, launchType } = request;
    const answer = await ec2.call(
      "RunInstances",
      runRequest(request, runPlace, { image, clientToken, at }),
      {
        purpose: "start an instance",
        place: { instanceType, launchType, zone: subnet.zone },
        signal,
      },
    );
    const seen = toInstance(answer.Instances?.[0] ?? {});
    if (!seen)
      throw new CloudError("CLOUD_UNKNOWN", "Cannot start an instance: the answer has none");
    instances.launched(seen);
    return seen;
  }

  /**
   * The instance that an earlier attempt started with this client token; undefined if it has ended. EC2 forgets what has ended
   * within about an hour and may know its token for longer: what no answer has for `consistencyMs` has ended, too, and so has
   * what has a successor.
   */
  async #earlier(
    token: string,
    clientToken: string,
    signal?: AbortSignal,
  ): Promise<SeenInstance | undefined> {
    const { instances, clock, consistencyMs } = this.#options;
    const began = clock.monotonic();
    for (let pauseMs = 50; ; pauseMs = Math.min(2 * pauseMs, 5000)) {
      const known = await instances.ofToken(token, signal);
      const same = known.find((each) => each.clientToken === clientToken);
      if (same && isAlive(same.instance)) return same;
      // What is shutting down may still run: its successor waits.
      const hasEnded = same
        ? same.instance.state === "terminated"
        : known.length > 0 && known.every((each) => isSuccessor(each.clientToken, clientToken));
      if (hasEnded) return undefined;
      if (clock.monotonic() - began > consistencyMs) {
        if (!same) return undefined;
        throw new CloudError(
          "CLOUD_UNAVAILABLE",
          "Cannot start an instance: the one before is still ending",
        );
      }
      await clock.sleep(pauseMs, signal);
    }
  }
}

function isSuccessor(clientToken: string, of: string): boolean {
  return generationOf(clientToken) > generationOf(of);
}

function isAlive({ state }: Instance): boolean {
  return state === "pending" || state === "running";
}
