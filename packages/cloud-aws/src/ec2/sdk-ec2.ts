import { defined } from "@kip/base";
import { CloudError, type ChangeTerm } from "@kip/cloud";
import type * as AwsSdk from "@aws-sdk/client-ec2";
import type { EC2Client, EC2ClientConfig } from "@aws-sdk/client-ec2";
import { sendUntilAborted, timeLimits } from "../connection.ts";
import { cloudErrorOf, type PersonPolicy } from "../errors/cloud-error-of.ts";
import {
  isChange,
  type Ec2,
  type Ec2Action,
  type Ec2CallOptions,
  type Ec2Calls,
} from "./ec2-calls.ts";

/** Connection options of {@link openSdkEc2}. */
export interface Ec2ConnectionOptions {
  readonly region: string;
  /** @default the SDK's chain: environment, shared files, web identity, container, instance profile */
  readonly credentials?:
    { readonly accessKeyId: string; readonly secretAccessKey: string } | undefined;
  /** URL of the EC2 API. @default the region's */
  readonly endpointURL?: string | undefined;
  /** Whether to skip the verification of the API's certificate. @default false */
  readonly insecureTLSSkipVerify?: boolean | undefined;
  /** How often one call is sent before it fails, 1 or more. @default 3 */
  readonly attempts?: number | undefined;
  /** The policy that a person needs for the calls, for remedies. @default kip's own */
  readonly policy?: PersonPolicy | undefined;
  /** Returns the current term, in which a new change begins. @default one that never ends */
  readonly term?: (() => ChangeTerm) | undefined;
}

/** Time limit of a request, milliseconds. If a launch takes longer, its instance is found again by its token. */
const requestLimitMs = 20_000;
const connectionLimitMs = 3000;

/**
 * Connects to the EC2 API. Only this function loads the SDK, which takes 92 MiB of memory and half a second. A kip on another
 * cloud must not load it.
 */
export async function openSdkEc2(options: Ec2ConnectionOptions): Promise<Ec2> {
  const sdk = await import("@aws-sdk/client-ec2");
  const client = new sdk.EC2Client(clientConfig(options));
  return new SdkEc2(client, sdk, options);
}

const endless: ChangeTerm = { isHeld: () => true };

function clientConfig(options: Ec2ConnectionOptions): EC2ClientConfig {
  const { region, credentials, endpointURL, insecureTLSSkipVerify = false, attempts = 3 } = options;
  return defined({
    region,
    credentials,
    endpoint: endpointURL,
    maxAttempts: attempts,
    requestHandler: {
      ...timeLimits(requestLimitMs, connectionLimitMs),
      ...(insecureTLSSkipVerify && { httpsAgent: { rejectUnauthorized: false } }),
    },
  });
}

type Sdk = typeof AwsSdk;
type Sent = Parameters<EC2Client["send"]>[0];
type Add = (middleware: Middleware, options: { readonly step: "deserialize" }) => void;
type Middleware = <Args, Answer>(
  next: (args: Args) => Promise<Answer>,
) => (args: Args) => Promise<Answer>;

class SdkEc2 implements Ec2 {
  readonly #client: EC2Client;
  readonly #sdk: Sdk;
  readonly #term: () => ChangeTerm;
  readonly #policy: PersonPolicy | undefined;

  constructor(client: EC2Client, sdk: Sdk, { term, policy }: Ec2ConnectionOptions) {
    this.#client = client;
    this.#sdk = sdk;
    this.#term = term ?? (() => endless);
    this.#policy = policy;
  }

  async call<A extends Ec2Action>(
    action: A,
    input: Ec2Calls[A][0],
    { purpose, place, signal }: Ec2CallOptions,
  ): Promise<Ec2Calls[A][1]> {
    signal?.throwIfAborted();
    // The SDK names the class of each action after the action, and the table of calls has their inputs and outputs.
    const Command = this.#sdk[`${action}Command`] as unknown as new (input: Ec2Calls[A][0]) => Sent;
    const command = new Command(input);
    if (isChange(action)) sendWithin(this.#term(), command, purpose);
    try {
      const answer: unknown = await sendUntilAborted(
        async (options) => await this.#client.send(command, options),
        signal,
      );
      return answer as Ec2Calls[A][1];
    } catch (cause) {
      signal?.throwIfAborted();
      if (CloudError.is(cause)) throw cause;
      throw cloudErrorOf(cause, { purpose, action, place, policy: this.#policy });
    }
  }

  [Symbol.dispose](): void {
    this.#client.destroy();
  }
}

/** Makes the SDK check before every attempt of a command, including its own retries, that the term is still held. */
function sendWithin(term: ChangeTerm, command: Sent, purpose: string): void {
  // Steps after the SDK's retry step run for each attempt.
  const add = command.middlewareStack.add.bind(command.middlewareStack) as unknown as Add;
  const ask: Middleware = (next) => async (args) => {
    if (term.isHeld()) return await next(args);
    const message = `Cannot ${purpose}: another kip may run this node now`;
    throw new CloudError("CLOUD_UNAVAILABLE", message);
  };
  add(ask, { step: "deserialize" });
}
