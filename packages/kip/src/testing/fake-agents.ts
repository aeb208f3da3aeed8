import assert from "node:assert/strict";
import type { AgentClient, DesiredPod, PodReport, waitForAgent } from "@kip/agent-api";
import type { Instance } from "@kip/cloud";
import type { Clock } from "@kip/base";

/** The agent of a simulated machine. It keeps its pod as long as the machine runs. */
class FakeAgent {
  podUid: string | undefined;
  isReachable = true;
  /** Ends the connections. */
  readonly connections = new Set<() => void>();

  disconnect(): void {
    for (const close of this.connections) close();
  }
}

/** The agents of the machines of a simulated cloud. */
export class FakeAgents {
  readonly #clock: Clock;
  /** Whether agents of machines that boot from now on respond. */
  isAnswering = true;
  /** By the name of the cell. */
  readonly #agents = new Map<string, FakeAgent>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Starts an agent on a machine. Returns a function that ends it. */
  boot({ name }: Instance): () => void {
    const agent = new FakeAgent();
    agent.isReachable = this.isAnswering;
    this.#agents.set(name, agent);
    return () => {
      this.#agents.delete(name);
      agent.disconnect();
    };
  }

  /** UIDs of the pods that machines run, once for each machine. */
  pods(): readonly string[] {
    return [...this.#agents.values()].flatMap(({ podUid }) => podUid ?? []).sort();
  }

  /** Cuts or restores the network to a machine. */
  setReachable(cellName: string, isReachable: boolean): void {
    const agent = this.#agents.get(cellName);
    if (!agent) return;
    agent.isReachable = isReachable;
    if (!isReachable) agent.disconnect();
  }

  /**
   * Returns `waitForAgent` for a process of kip. Its calls to agents go through `call`. `opened` gets a function that closes
   * the connection.
   */
  dialer(
    call: <T>(effect: () => T) => Promise<T>,
    opened: (close: () => void) => void,
  ): typeof waitForAgent {
    return async ({ cellName, signal }) => {
      for (;;) {
        await call(() => {});
        const agent = this.#agents.get(cellName);
        if (agent?.isReachable === true) return this.#connect(agent, call, opened);
        await this.#clock.sleep(1000, signal);
      }
    };
  }

  #connect(
    agent: FakeAgent,
    call: <T>(effect: () => T) => Promise<T>,
    opened: (close: () => void) => void,
  ): AgentClient {
    const closed = Promise.withResolvers<void>();
    const changed = { waiter: Promise.withResolvers<void>() };
    const close = (): void => {
      agent.connections.delete(close);
      closed.resolve();
    };
    agent.connections.add(close);
    opened(close);
    const client = {
      closed: closed.promise,
      info: async () => await call(() => ({ podUid: agent.podUid })),
      async *status() {
        if (agent.podUid === undefined)
          await Promise.race([changed.waiter.promise, closed.promise]);
        if (agent.podUid !== undefined) yield reportOf(agent.podUid);
        await closed.promise;
      },
      putPod: async ({ uid, generation }: DesiredPod) =>
        await call(() => {
          assert.ok((agent.podUid ?? uid) === uid, "a machine never gets two pods");
          const others = [...this.#agents.values()].filter((each) => each !== agent);
          assert.ok(!others.some(({ podUid }) => podUid === uid), "a pod never has two machines");
          agent.podUid = uid;
          changed.waiter.resolve();
          return generation;
        }),
      deletePod: async () => await call(() => {}),
      putIdentity: async () => await call(() => {}),
      [Symbol.asyncDispose]: async () => close(),
    };
    return client as unknown as AgentClient; // the methods that are called
  }
}

function reportOf(podUid: string): PodReport {
  return {
    podUid,
    generation: 1,
    phase: "Running",
    startTime: "2030-01-01T00:00:00Z",
    initContainers: [],
    containers: [
      {
        name: "main",
        running: { startedAt: "2030-01-01T00:00:00Z" },
        ready: true,
        started: true,
        restartCount: 0,
        image: "i",
      },
    ],
    ephemeralContainers: [],
    events: [],
    timingsMs: {},
  };
}
