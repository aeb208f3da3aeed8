import { eventually } from "@kip/testing";

/** An SQS queue of moto that a test fills. */
export interface TestQueue {
  /** Path of its URL. */
  readonly path: string;
  /** Sends a message like EventBridge. */
  send(body: string): Promise<void>;
  /** Resolves when it has no messages, received or not. */
  empty(): Promise<void>;
}

/** An EC2 event about an instance, in EventBridge's format. */
export function instanceEvent(
  instanceId: string,
  changes: Readonly<Record<string, unknown>> = {},
): string {
  return JSON.stringify({
    version: "0",
    id: "12345678-1234-1234-1234-123456789012",
    "detail-type": "EC2 Spot Instance Interruption Warning",
    source: "aws.ec2",
    account: "123456789012",
    time: new Date().toISOString(),
    region: "us-east-1",
    resources: [`arn:aws:ec2:us-east-1:instance/${instanceId}`],
    detail: { "instance-id": instanceId, "instance-action": "terminate" },
    ...changes,
  });
}

/** Creates a queue whose messages are received again after a second unless they are deleted. */
export async function createQueue(motoURL: string, name: string): Promise<TestQueue> {
  const ask = async (action: string, body: object): Promise<Record<string, unknown>> => {
    const answer = await fetch(motoURL, {
      method: "POST",
      headers: {
        authorization:
          "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0",
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": `AmazonSQS.${action}`,
      },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${action}: ${await answer.text()}`);
    return (await answer.json()) as Record<string, unknown>; // moto's response
  };
  const made = await ask("CreateQueue", {
    QueueName: name,
    Attributes: { VisibilityTimeout: "1" },
  });
  const QueueUrl = String(made["QueueUrl"]);
  const names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"];
  return {
    path: new URL(QueueUrl).pathname,
    send: async (MessageBody) => void (await ask("SendMessage", { QueueUrl, MessageBody })),
    empty: async () => {
      await eventually(async () => {
        const { Attributes = {} } = await ask("GetQueueAttributes", {
          QueueUrl,
          AttributeNames: names,
        });
        const counts = Attributes as Readonly<Record<string, string>>; // moto's response
        return names.every((each) => counts[each] === "0");
      });
    },
  };
}
