import { eventually } from "@kip/testing";

/** A queue of moto's SQS, as a test fills it. */
export interface TestQueue {
  /** Path of its URL. */
  readonly path: string;
  /** What EventBridge would send. */
  send(body: string): Promise<void>;
  /** Resolves once it has no message, received or not. */
  empty(): Promise<void>;
}

/** An event of EC2 as EventBridge sends it, about an instance. */
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

/** Makes a queue whose messages come again after a second unless they are deleted. */
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
    return (await answer.json()) as Record<string, unknown>; // as moto answers
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
        const counts = Attributes as Readonly<Record<string, string>>; // as moto answers
        return names.every((each) => counts[each] === "0");
      });
    },
  };
}
