import { defined } from "@kip/base";
import type { Message, SQSClientConfig } from "@aws-sdk/client-sqs";
import { sendUntilAborted, timeLimits } from "../connection.ts";
import { cloudErrorOf } from "../errors/cloud-error-of.ts";

/** Connection options of {@link openQueue}. */
export interface QueueOptions {
  /** URL of the queue. Its host is the API's. */
  readonly url: string;
  readonly region: string;
  /** @default the SDK's chain, as for EC2 */
  readonly credentials?:
    { readonly accessKeyId: string; readonly secretAccessKey: string } | undefined;
}

/** The actions of SQS that this driver calls. */
export const queueActions = ["ReceiveMessage", "DeleteMessage"] as const;
type QueueAction = (typeof queueActions)[number];

/** A received message. It is received again after a while unless it is deleted. */
export interface QueueMessage {
  readonly body: string;
  delete(): Promise<void>;
}

/** An SQS queue. */
export interface Queue extends Disposable {
  /**
   * Receives the next messages. Empty if none arrives within 20 s.
   *
   * @throws {CloudError}
   * @throws the signal's reason
   */
  receive(signal: AbortSignal): Promise<readonly QueueMessage[]>;
}

/** How long a call may wait for a message, seconds. SQS' maximum. */
const waitSeconds = 20;
const requestLimitMs = waitSeconds * 1000 + 20_000;
const connectionLimitMs = 3000;

/** Connects to a queue. Only this function loads the SDK of SQS. */
export async function openQueue({ url, region, credentials }: QueueOptions): Promise<Queue> {
  const sdk = await import("@aws-sdk/client-sqs");
  const config: SQSClientConfig = defined({
    region: regionOf(url) ?? region,
    credentials,
    endpoint: new URL(url).origin,
    requestHandler: timeLimits(requestLimitMs, connectionLimitMs),
  });
  const client = new sdk.SQSClient(config);
  const call = async <T>(
    action: QueueAction,
    send: () => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> => {
    try {
      return await send();
    } catch (cause) {
      signal?.throwIfAborted();
      const purpose = "read the queue of interruptions";
      throw cloudErrorOf(cause, { purpose, service: "sqs", action });
    }
  };
  const toMessage = ({ Body = "", ReceiptHandle }: Message): QueueMessage => ({
    body: Body,
    delete: async () => {
      const command = new sdk.DeleteMessageCommand({ QueueUrl: url, ReceiptHandle });
      await call("DeleteMessage", async () => await client.send(command));
    },
  });
  return {
    receive: async (signal) => {
      signal.throwIfAborted();
      const command = new sdk.ReceiveMessageCommand({
        QueueUrl: url,
        MaxNumberOfMessages: 10,
        WaitTimeSeconds: waitSeconds,
      });
      const send = async () =>
        await sendUntilAborted(async (options) => await client.send(command, options), signal);
      const { Messages = [] } = await call("ReceiveMessage", send, signal);
      return Messages.map(toMessage);
    },
    [Symbol.dispose]: () => client.destroy(),
  };
}

/**
 * The ARN of the queue with this URL. The URL's path is the account and the name.
 *
 * @param options.region region for a URL that names none, such as that of a VPC endpoint
 */
export function queueArn(
  url: string,
  { partition, region }: { readonly partition: string; readonly region: string },
): string {
  const { pathname } = new URL(url);
  const [, account = "*", name = "*"] = /^\/(\d{12})\/([\w.-]+)$/.exec(pathname) ?? [];
  return `arn:${partition}:sqs:${regionOf(url) ?? region}:${account}:${name}`;
}

/**
 * The region in an SQS URL. It must be a whole part of the host, because the name of a zonal VPC endpoint also contains an ID.
 */
function regionOf(url: string): string | undefined {
  const parts = new URL(url).hostname.split(".");
  return parts.findLast((part) => /^[a-z]{2,4}(-[a-z]+){1,3}-\d{1,2}$/.test(part));
}
