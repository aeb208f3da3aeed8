import fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { AgentClient } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import type { KeyPair } from "@kip/pki";
import { startAgent, type RunningAgent } from "../src/index.ts";
import type { PodLink } from "../src/network/pod-link.ts";
import { fakeDependencies, FakeRules, FakeRuntime } from "./fake-dependencies.ts";
import { cellName, makeCredentials } from "./test-cell.ts";

/** The certificates of the cells of one test file. */
export const credentials = await makeCredentials();
const { authority, identity, kip } = credentials;

/** An agent with its own directory, and ways to reach it. */
export class Cell implements AsyncDisposable {
  readonly runtime = new FakeRuntime();
  readonly rules = new FakeRules();
  readonly missing = new Set<string>();
  readonly links: PodLink[] = [];
  /** How often the dependencies were loaded. */
  loads = 0;
  agent!: RunningAgent;
  directory!: string;
  readonly #clients: AgentClient[] = [];

  static async start(): Promise<Cell> {
    const cell = new Cell();
    cell.directory = await fs.mkdtemp(path.join(os.tmpdir(), "kip-agent-"));
    await cell.startAgent();
    return cell;
  }

  async startAgent(): Promise<void> {
    const dependencies = fakeDependencies(this);
    this.agent = await startAgent({
      identity,
      agentVersion: "0.1.0",
      stateDir: path.join(this.directory, "state"),
      runDir: path.join(this.directory, "run"),
      port: 0,
      host: "127.0.0.1",
      bootTimingsMs: { userspace: 1 },
      logger: silentLogger,
      loadDependencies: async () => {
        this.loads++;
        return dependencies;
      },
    });
  }

  async connect(others: Partial<KeyPair & { cellName: string }> = {}): Promise<AgentClient> {
    const client = await AgentClient.connect({
      address: "127.0.0.1",
      port: this.agent.port,
      cellName,
      ca: authority.certificate,
      ...kip,
      ...others,
      logger: silentLogger,
    });
    this.#clients.push(client);
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) await client[Symbol.asyncDispose]();
    await this.agent[Symbol.asyncDispose]();
    await fs.rm(this.directory, { recursive: true, force: true });
  }
}
