import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import type { Ec2Faults } from "./ec2-faults.ts";
import { itemsOf, setText, textOf, type XmlElement } from "./xml.ts";

const authorization =
  "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/ebs/aws4_request, SignedHeaders=host, Signature=0";
const blockBytes = 524_288;

interface DirectSnapshot {
  state: "pending" | "completed" | "error";
  /** Whether it takes no more blocks and will soon be completed. */
  isSealed: boolean;
  readonly sums: Map<number, Buffer>;
}

/** A call of the EBS direct API. */
interface DirectCall {
  readonly action: string;
  readonly snapshotId: string;
  readonly block: number;
}

/**
 * The EBS direct API as documented, on top of moto. Adds what moto does not check: states, checksums, numbers of blocks and
 * client tokens. The fault code `corrupted` changes a block in transit, `dropped` loses a block, `lost` loses the response, and
 * any other refuses the call.
 */
export class DirectSnapshots {
  /** Time from the call that completes a snapshot until it is complete, milliseconds. */
  completionMs = 10;
  /** Maximum number of blocks that were in transit at the same time. */
  mostAtOnce = 0;
  readonly #moto: string;
  readonly #faults: Ec2Faults;
  readonly #snapshots = new Map<string, DirectSnapshot>();
  readonly #tokens = new Map<string, { readonly sent: string; readonly answer: Buffer }>();
  #now = 0;

  constructor(moto: string, faults: Ec2Faults) {
    this.#moto = moto;
    this.#faults = faults;
  }

  /** The EBS direct API call of a request. Undefined for requests of other APIs. */
  static callOf({ method = "", url = "" }: IncomingMessage): DirectCall | undefined {
    const path = url.replace(/\?.*/, "");
    if (method === "POST" && path === "/snapshots")
      return { action: "StartSnapshot", snapshotId: "", block: 0 };
    const [, done = ""] = /^\/snapshots\/completion\/([^/]+)$/.exec(path) ?? [];
    if (done !== "") return { action: "CompleteSnapshot", snapshotId: done, block: 0 };
    const [, id = "", block = ""] = /^\/snapshots\/([^/]+)\/blocks\/(\d+)$/.exec(path) ?? [];
    if (method !== "PUT" || id === "") return undefined;
    return { action: "PutSnapshotBlock", snapshotId: id, block: Number(block) };
  }

  async serve(call: DirectCall, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    this.mostAtOnce = Math.max(this.mostAtOnce, ++this.#now);
    try {
      const fault = this.#faults.take(call.action);
      const answer =
        fault && !["lost", "corrupted", "dropped"].includes(fault.code)
          ? refusal(fault.code, fault.message ?? "injected", fault.status)
          : await this.#do(call, request, fault?.code === "corrupted" ? changed(body) : body);
      if (fault?.code === "dropped") this.#snapshots.get(call.snapshotId)?.sums.delete(call.block);
      if (fault?.code === "lost") request.socket.destroy();
      else response.writeHead(answer.status, answer.headers).end(answer.body);
    } finally {
      this.#now -= 1;
    }
  }

  /** Makes EBS give up on a snapshot. */
  abandon(id: string): void {
    const snapshot = this.#snapshots.get(id);
    if (snapshot) snapshot.state = "error";
  }

  /** Puts the states of these snapshots into moto's response, which shows all of them as complete. */
  show(tree: XmlElement): void {
    for (const item of itemsOf(tree, "snapshotSet")) {
      const snapshot = this.#snapshots.get(textOf(item, "snapshotId"));
      if (snapshot) setText(item, "status", snapshot.state);
    }
  }

  async #do(call: DirectCall, request: IncomingMessage, body: Buffer): Promise<DirectAnswer> {
    if (call.action === "StartSnapshot") return await this.#start(request, body);
    const snapshot = this.#snapshots.get(call.snapshotId);
    if (!snapshot) return refusal("ResourceNotFoundException", "The snapshot does not exist", 404);
    if (snapshot.state !== "pending" || snapshot.isSealed)
      return refusal("ValidationException", `The snapshot is ${snapshot.state}`);
    const stated = String(request.headers["x-amz-checksum"]);
    if (call.action === "CompleteSnapshot") {
      const inOrder = [...snapshot.sums].sort(([a], [b]) => a - b);
      const all = createHash("sha256");
      for (const [, sum] of inOrder) all.update(sum);
      if (Number(request.headers["x-amz-changedblockscount"]) !== snapshot.sums.size)
        return refusal("ValidationException", "The count of changed blocks does not match");
      if (all.digest("base64") !== stated)
        return refusal("ValidationException", "The checksum does not match the blocks");
      const answer = await this.#forward(request, body);
      snapshot.isSealed = true;
      setTimeout(() => {
        if (snapshot.state === "pending") snapshot.state = "completed";
      }, this.completionMs).unref();
      return answer;
    }
    const sum = createHash("sha256").update(body).digest();
    if (body.length !== blockBytes || sum.toString("base64") !== stated)
      return refusal("ValidationException", "The checksum does not match the block");
    const answer = await this.#forward(request, body);
    snapshot.sums.set(call.block, sum);
    return answer;
  }

  async #start(request: IncomingMessage, body: Buffer): Promise<DirectAnswer> {
    const sent = body.toString();
    const { ClientToken: token = "" } = JSON.parse(sent) as { readonly ClientToken?: string };
    const known = this.#tokens.get(token);
    if (known && known.sent !== sent) return refusal("ConflictException", "Another request", 503);
    if (known) return { status: 201, headers: json, body: known.answer };
    const answer = await this.#forward(request, body);
    const { SnapshotId: id } = JSON.parse(answer.body.toString()) as {
      readonly SnapshotId: string;
    };
    this.#snapshots.set(id, { state: "pending", isSealed: false, sums: new Map() });
    this.#tokens.set(token, { sent, answer: answer.body });
    return answer;
  }

  async #forward(request: IncomingMessage, body: Buffer): Promise<DirectAnswer> {
    const { headers } = request;
    const sent = Object.entries(headers).flatMap(([name, value]) =>
      /^(content-type|x-amz-(checksum|data-length|changed|progress).*)$/.test(name)
        ? [[name, String(value)] as [string, string]]
        : [],
    );
    const answer = await fetch(`${this.#moto}${request.url ?? ""}`, {
      method: request.method ?? "GET",
      headers: [...sent, ["authorization", authorization]],
      body: new Uint8Array(body),
    });
    const kept = [...answer.headers].filter(([name]) => name.startsWith("x-amz"));
    return {
      status: answer.status,
      headers: { ...json, ...Object.fromEntries(kept) },
      body: Buffer.from(await answer.arrayBuffer()),
    };
  }
}

interface DirectAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

const json = { "content-type": "application/json" };

function refusal(code: string, message: string, status = 400): DirectAnswer {
  const body = Buffer.from(JSON.stringify({ message }));
  return { status, headers: { ...json, "x-amzn-errortype": code }, body };
}

/** A copy of the block with one bit changed. */
function changed(block: Buffer): Buffer {
  const other = Buffer.from(block);
  other[0] = (other[0] ?? 0) ^ 1;
  return other;
}
