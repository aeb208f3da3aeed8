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
import { isTaken, LaunchTokens, mostGenerations } from "./launch-tokens.ts";
import { generationOf, runRequest } from "./run-request.ts";
import { toInstance, type SeenInstance } from "./to-instance.ts";

/** Options of {@link Launcher}. */
export interface LauncherOptions {
  readonly ec2: Ec2;
  readonly owner: string;
  readonly subnets: Subnets;
  readonly images: Images;
  readonly instances: Instances;
  readonly securityGroups: SecurityGroups;
  /** Where to run dedicated instances. @default dedicated tenancy */
  readonly hosts: Hosts | undefined;
  /** Whether instances get IPv6 addresses if their subnet has them. */
  readonly ipv6: boolean;
  readonly clock: Clock;
  readonly consistencyMs: number;
}

interface LaunchAttempt {
  /** When the launch began, monotonic milliseconds. */
  readonly began: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Starts instances, one for each token. EC2 starts at most one instance for a client token, also if calls fail or are repeated.
 * Each attempt has a different tag. So EC2 refuses all but the first with `IdempotentParameterMismatch`, and the launcher finds
 * the first one's instance by its tag. If that instance has ended, the launcher uses the Cell's next client token. All
 * processes use the client tokens in the same order. EC2 knows a client token only in one zone, and all launches of a Cell are
 * in one zone.
 */
export class Launcher {
  readonly #options: LauncherOptions;
  readonly #tokens: LaunchTokens;

  constructor(options: LauncherOptions) {
    this.#options = options;
    this.#tokens = new LaunchTokens(options.owner);
  }

  async launch(request: LaunchRequest, signal?: AbortSignal): Promise<Instance> {
    signal?.throwIfAborted();
    checkLaunchRequest(request);
    const began = this.#options.clock.monotonic();
    for (let generation = 0; generation < mostGenerations; generation++) {
      const started = await this.#start(request, { began, signal });
      if (started) return started.instance;
    }
    throw new CloudError(
      "CLOUD_UNAVAILABLE",
      `Cannot start an instance: ${mostGenerations} instances of "${request.name}" have ended`,
    );
  }

  /** The instance of the token's current client token. Undefined if it has ended, and the next client token must be used. */
  async #start(request: LaunchRequest, attempt: LaunchAttempt): Promise<SeenInstance | undefined> {
    const { token } = request;
    const { signal } = attempt;
    try {
      const seen = await this.#run(request, attempt);
      // EC2 may return the instance of an earlier attempt.
      return isAlive(seen.instance) ? seen : await this.#earlier(token, attempt);
    } catch (error) {
      if (!CloudError.is(error)) throw error;
      if (awsCodeOf(error).startsWith("InvalidAMIID.")) this.#options.images.forget(request.image);
      if (awsCodeOf(error) === "InvalidGroup.NotFound") this.#options.securityGroups.forget();
      if (isTaken(error)) return await this.#earlier(token, attempt);
      if (!error.retryable && error.code !== "CLOUD_UNKNOWN") throw error;
      // This attempt or an earlier one may have started an instance. If so, return it instead of the failure.
      const known = await this.#options.instances.ofToken(token, signal).catch(() => []);
      const living = known.find(({ instance }) => isAlive(instance));
      if (living) return living;
      throw error;
    }
  }

  /** Launches in the zone's subnet with the most free addresses, or in the next one if that has none left. */
  async #run(request: LaunchRequest, attempt: LaunchAttempt): Promise<SeenInstance> {
    const candidates = await this.#options.subnets.inZone(request.zone);
    for (const [index, subnet] of candidates.entries()) {
      try {
        return await this.#place(subnet, request, attempt);
      } catch (error) {
        const isFull = awsCodeOf(error) === "InsufficientFreeAddressesInSubnet";
        if (!isFull || index === candidates.length - 1) throw error;
      }
    }
    throw new RangeError("A zone without subnets");
  }

  /** Launches on one of our hosts, if dedicated instances use these. */
  async #place(
    subnet: CellSubnet,
    request: LaunchRequest,
    attempt: LaunchAttempt,
  ): Promise<SeenInstance> {
    const { hosts, instances } = this.#options;
    if (!hosts || request.launchType !== "dedicated")
      return await this.#runIn(subnet, request, attempt);
    // A repeated launch must not allocate a host for an instance that already has one.
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
    { signal, hostId }: LaunchAttempt & { readonly hostId?: string },
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
    const place = { instanceType, launchType, zone: subnet.zone };
    const answer = await this.#tokens.send(request.token, async (clientToken) => {
      const input = runRequest(request, runPlace, { image, clientToken, at });
      return await ec2.call("RunInstances", input, { purpose: "start an instance", place, signal });
    });
    const seen = toInstance(answer.Instances?.[0] ?? {});
    if (!seen)
      throw new CloudError("CLOUD_UNKNOWN", "Cannot start an instance: the answer has none");
    if (isAlive(seen.instance)) instances.launched(seen);
    return seen;
  }

  /**
   * The instance that an earlier attempt started with the current client token. Undefined if it has ended. EC2 forgets an ended
   * instance after about an hour, and may know its token for longer. So an instance also counts as ended if no response has had
   * it for `consistencyMs` since the launch began, or if a later generation exists.
   */
  async #earlier(
    token: string,
    { began, signal }: LaunchAttempt,
  ): Promise<SeenInstance | undefined> {
    const { instances, clock, consistencyMs } = this.#options;
    const clientToken = this.#tokens.of(token);
    for (let pauseMs = 50; ; pauseMs = Math.min(2 * pauseMs, 5000)) {
      const known = await instances.ofToken(token, signal);
      const same = known.find((each) => each.clientToken === clientToken);
      if (same && isAlive(same.instance)) return same;
      // An instance that is shutting down may still run, so its successor waits.
      const hasEnded = same
        ? same.instance.state === "terminated"
        : known.length > 0 && known.every((each) => isSuccessor(each.clientToken, clientToken));
      const isOver = clock.monotonic() - began > consistencyMs;
      if (hasEnded || (isOver && !same)) return this.#tokens.pass(token, clientToken);
      if (isOver)
        throw new CloudError(
          "CLOUD_UNAVAILABLE",
          "Cannot start an instance: the one before is still ending",
        );
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
