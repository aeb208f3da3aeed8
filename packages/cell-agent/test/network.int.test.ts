// What kip sends about the cluster's network, over real HTTP/2 on loopback, with in-memory rules.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentClient, NetworkChanges } from "@kip/agent-api";
import { untilAborted } from "@kip/base";
import { encodeLine, type ViewLine } from "@kip/network-view";
import { Cell } from "./cell.ts";
import { desiredPod } from "./desired-pod.ts";
import { report } from "./test-cell.ts";

const limit = { timeout: 30_000 };
const network = { nodeAddresses: ["10.0.0.1"], serviceRanges: ["10.96.0.0/16"] };

/** Changes that a test sends one by one. */
class Changes implements NetworkChanges, Disposable {
  /** How many the agent has requested. All before the last one are in force. */
  asked = 0;
  sums: readonly number[] = [];
  readonly stop = new AbortController();
  readonly ended: Promise<unknown>;
  #next = Promise.withResolvers<readonly Buffer[]>();
  #wanted = Promise.withResolvers<void>();

  constructor(client: AgentClient) {
    this.ended = client
      .sendNetwork(({ sums }) => {
        this.sums = sums;
        return this;
      }, this.stop.signal)
      .catch((error: unknown) => error);
  }

  async next(signal: AbortSignal): Promise<readonly Buffer[]> {
    this.asked++;
    this.#wanted.resolve();
    return await untilAborted(this.#next.promise, signal);
  }

  /** Sends a change and resolves when it is in force. */
  async send(...lines: readonly ViewLine[]): Promise<void> {
    await this.#wanted.promise;
    const all: readonly ViewLine[] = [...lines, { kind: "end", number: this.asked }];
    const send = this.#next;
    this.#next = Promise.withResolvers();
    this.#wanted = Promise.withResolvers();
    send.resolve([Buffer.from(all.map(encodeLine).join(""))]);
    await Promise.race([this.#wanted.promise, this.ended]);
  }

  [Symbol.dispose](): void {
    this.stop.abort();
  }
}

const open: ViewLine = { kind: "policy", policy: {} };

describe("POST /v1/network", limit, () => {
  it("lets containers start once the first change is in force, and not before", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod({ network }));
    using changes = new Changes(client);
    await report(client, ({ events }) => events.some(({ reason }) => reason === "Pulled"));
    assert.deepEqual(cell.runtime.calls, []);
    await changes.send(open);
    await report(client, ({ phase }) => phase === "Running");
    assert.deepEqual(cell.rules.changes[0]?.policy, {});
    assert.deepEqual(cell.rules.places, [
      { ...network, podAddresses: ["10.0.0.2"], machineAddresses: [] },
    ]);
  });

  it("reads a change that came before the pod when the pod has come", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    using changes = new Changes(client);
    const sent = changes.send(open);
    await client.putPod(desiredPod({ network, hostNetwork: true }));
    await sent;
    assert.deepEqual(cell.rules.places[0]?.podAddresses, []);
    await report(client, ({ phase }) => phase === "Running");
  });

  it("waits for nothing with a pod without a network", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod());
    await report(client, ({ phase }) => phase === "Running");
    assert.deepEqual(cell.rules.places, []);
  });

  it("shows NetworkNotReady, and starts nothing until the rules are in force", async () => {
    await using cell = await Cell.start();
    cell.rules.failures = Number.POSITIVE_INFINITY;
    const client = await cell.connect();
    await client.putPod(desiredPod({ network }));
    using changes = new Changes(client);
    const sent = changes.send(open);
    const isProblem = ({ reason }: { readonly reason: string }) => reason === "NetworkNotReady";
    const waiting = await report(client, ({ events }) => events.filter(isProblem).length > 1);
    assert.match(waiting.events.find(isProblem)?.message ?? "", /nft refused/);
    assert.equal(waiting.phase, "Pending");
    assert.deepEqual(cell.runtime.calls, []);
    cell.rules.failures = 0;
    await report(client, ({ phase }) => phase === "Running");
    await sent;
  });

  it("takes the changes of the newest connection, which it tells what it has", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod({ network }));
    using first = new Changes(client);
    await first.send(open);
    using second = new Changes(client);
    await second.send();
    // The agent knows nothing of this table, so kip sends each part of it.
    assert.equal(new Set(first.sums).size, first.sums.length);
    assert.deepEqual(new Set(second.sums), new Set([0]));
    await first.ended;
    assert.equal(cell.rules.changes.length, 2);
    assert.equal(cell.rules.places.length, 1);
  });

  it("lets containers be started again by an agent that was started again, whatever kip does", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod({ network }));
    using changes = new Changes(client);
    await changes.send(open);
    await report(client, ({ phase }) => phase === "Running");
    await cell.agent[Symbol.asyncDispose]();
    await cell.startAgent();
    await cell.agent.ready;
    cell.runtime.exit("web", 1);
    const again = await cell.connect();
    const { containers } = await report(
      again,
      ({ containers: [web] }) => web?.restartCount === 1 && web.running !== undefined,
    );
    assert.equal(containers.length, 1);
  });

  it("is served after the agent was started again by rules that take over those in force", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    await client.putPod(desiredPod({ network }));
    using changes = new Changes(client);
    await changes.send(open);
    await report(client, ({ phase }) => phase === "Running");
    await cell.agent[Symbol.asyncDispose]();
    await cell.startAgent();
    using others = new Changes(await cell.connect());
    await others.send(open);
    assert.deepEqual(cell.rules.takenOver, [false, true]);
  });

  it("ends the stream, and no container, when a line is not valid", async () => {
    await using cell = await Cell.start();
    const client = await cell.connect();
    const stop = new AbortController();
    const invalid: NetworkChanges = { next: async () => [Buffer.from("[]\n")] };
    await assert.rejects(client.sendNetwork(() => invalid, stop.signal));
    await client.putPod(desiredPod());
    await report(client, ({ phase }) => phase === "Running");
  });
});
