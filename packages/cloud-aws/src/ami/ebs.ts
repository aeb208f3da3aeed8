import type * as AwsSdk from "@aws-sdk/client-ebs";
import { backoffDelay, defined, type Clock } from "@kip/base";
import type { CloudError, CloudErrorCode } from "@kip/cloud";
import { sendUntilAborted, timeLimits, type ConnectionSettings } from "../connection.ts";
import { awsCodeOf, cloudErrorOf } from "../errors/cloud-error-of.ts";

/** The EBS direct API calls that this driver makes, with their inputs and outputs. */
export interface EbsCalls {
  StartSnapshot: [AwsSdk.StartSnapshotCommandInput, AwsSdk.StartSnapshotCommandOutput];
  PutSnapshotBlock: [AwsSdk.PutSnapshotBlockCommandInput, AwsSdk.PutSnapshotBlockCommandOutput];
  CompleteSnapshot: [AwsSdk.CompleteSnapshotCommandInput, AwsSdk.CompleteSnapshotCommandOutput];
}

export type EbsAction = keyof EbsCalls;

/** The EBS direct API, which writes snapshots without an instance. */
export interface Ebs extends Disposable {
  /**
   * Repeats a call that was throttled, that failed for now, whose block did not arrive in time, or whose snapshot is not known yet:
   * then a policy that looks at its tags refuses it, too.
   *
   * @throws {CloudError} of the closed set
   * @throws the signal's reason
   */
  call<A extends EbsAction>(
    action: A,
    input: EbsCalls[A][0],
    options: { readonly purpose: string; readonly signal?: AbortSignal | undefined },
  ): Promise<EbsCalls[A][1]>;
}

/** Connection options of {@link openSdkEbs}. */
export interface EbsOptions {
  readonly region: string;
  readonly credentials?: ConnectionSettings["credentials"];
  /** @default the region's */
  readonly endpointURL?: string | undefined;
  readonly clock: Clock;
  /** Delay before the first retry of a call, milliseconds. Doubles up to 40 times this value. @default 500 */
  readonly retryMs?: number | undefined;
}

/**
 * How often a call is sent before it fails. 12 attempts take about two minutes, which is as long as EBS may not know a snapshot
 * that it has started.
 */
const mostAttempts = 12;
const repeatedCodes: readonly CloudErrorCode[] = [
  "CLOUD_THROTTLED",
  "CLOUD_UNAVAILABLE",
  "CLOUD_NOT_FOUND",
];
const requestLimitMs = 60_000;
const connectionLimitMs = 5000;

/** Connects to the EBS direct API. Only this function loads its SDK. */
export async function openSdkEbs(options: EbsOptions): Promise<Ebs> {
  const { region, credentials, endpointURL, clock, retryMs = 500 } = options;
  const sdk = await import("@aws-sdk/client-ebs");
  const client = new sdk.EBSClient(
    defined({
      region,
      credentials,
      endpoint: endpointURL,
      maxAttempts: 1,
      requestHandler: timeLimits(requestLimitMs, connectionLimitMs),
    }),
  );
  const send = async <A extends EbsAction>(
    action: A,
    input: EbsCalls[A][0],
    signal: AbortSignal | undefined,
  ): Promise<EbsCalls[A][1]> => {
    // The SDK names the class of each action after the action, and the table of calls has their inputs and outputs.
    const Command = sdk[`${action}Command`] as unknown as new (
      input: EbsCalls[A][0],
    ) => AwsSdk.StartSnapshotCommand;
    const command = new Command(input);
    const answer: unknown = await sendUntilAborted(
      async (options) => await client.send(command, options),
      signal,
    );
    return answer as EbsCalls[A][1];
  };
  return {
    call: async (action, input, { purpose, signal }) => {
      for (let attempt = 0; ; attempt++) {
        signal?.throwIfAborted();
        try {
          return await send(action, input, signal);
        } catch (cause) {
          signal?.throwIfAborted();
          const call = { purpose, action, service: "ebs", policy: "--image-build" } as const;
          const error = cloudErrorOf(cause, call);
          if (!isWorthRepeating(action, error) || attempt + 1 >= mostAttempts) throw error;
          const shape = { initialMs: retryMs, maxMs: 40 * retryMs };
          await clock.sleep(backoffDelay(attempt, shape, error), signal);
        }
      }
    },
    [Symbol.dispose]: () => client.destroy(),
  };
}

/**
 * Who may start a snapshot with the tags of a build may write into it: a refusal means that EBS does not know the tags yet. Over a
 * slow uplink it answers that it could not read a block, which arrives with another attempt.
 */
function isWorthRepeating(action: EbsAction, error: CloudError): boolean {
  if (repeatedCodes.includes(error.code)) return true;
  if (action !== "PutSnapshotBlock") return false;
  const awsCode = awsCodeOf(error);
  const isUnread = awsCode === "ValidationException" && error.message.includes("read block data");
  return isUnread || awsCode === "AccessDeniedException";
}
