import type { DesiredPod } from "@kip/agent-api";
import { errorText } from "@kip/base";
import type { AgentDependencies } from "../dependencies/agent-dependencies.ts";
import { watchEc2Notices, type Ec2NoticesOptions } from "../notices/ec2-notices.ts";
import { AgentWorker, type AgentWorkerOptions } from "../pod/agent-worker.ts";
import { agentHandler, type HandlerOptions } from "../server/agent-handler.ts";
import type { Handler } from "../server/agent-server.ts";
import { StatusStream } from "../server/status-stream.ts";

/** Options of {@link PodService}. */
export type PodServiceOptions = Omit<AgentWorkerOptions, "onChange"> &
  Omit<HandlerOptions, "worker" | "status" | "runtime">;

/** Joins the pod's worker with the server: runs the pod of the cell, and answers the requests about it. */
export class PodService implements AsyncDisposable {
  /** Resolves when running containers are taken over, or cannot be. */
  readonly ready: Promise<void>;
  /** Resolves when a container of the pod runs, whichever life of the agent has started it. */
  readonly running: Promise<void>;
  /** Serves what is asked of the pod. */
  readonly serve: Handler;
  readonly #worker: AgentWorker;
  readonly #status: StatusStream;
  readonly #options: PodServiceOptions;
  readonly #dependencies = Promise.withResolvers<AgentDependencies>();

  /** Knows the pod of an earlier life at once. */
  constructor(options: PodServiceOptions) {
    this.#options = options;
    this.#status = new StatusStream(() => this.#worker.report());
    const running = Promise.withResolvers<void>();
    this.running = running.promise;
    this.#worker = new AgentWorker({
      ...options,
      onChange: () => {
        this.#status.changed();
        if (this.#worker.running().size > 0) running.resolve();
      },
    });
    this.serve = agentHandler({
      ...options,
      worker: this.#worker,
      status: this.#status,
      runtime: async () => (await this.#dependencies.promise).runtime,
    });
    this.ready = this.#dependencies.promise
      .then((loaded) => this.#worker.begin(loaded))
      .catch((error: unknown) => {
        options.logger.error("Could not load the agent's dependencies", { err: error });
        this.#worker.fail(`The agent of the cell cannot work: ${errorText(error)}`);
      });
  }

  /** The pod of this cell; undefined if it has none yet. */
  get pod(): Pick<DesiredPod, "uid" | "generation"> | undefined {
    return this.#worker.pod;
  }

  /** Puts EC2's notices for this machine into the pod's reports, until the signal aborts. */
  async watchNotices(read: Ec2NoticesOptions["read"], signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    const worker = this.#worker;
    const notices = {
      onEnd: (endsAt: string) => {
        logger.warn("EC2 takes this machine back", { endsAt });
        worker.machineEnds(endsAt);
      },
      onRebalance: () => worker.rebalance(),
    };
    await watchEc2Notices({ read, ...notices, clock, logger }, signal);
  }

  /** Loads the dependencies and begins. Requests that need a part wait for it; they fail with the reason if it cannot be loaded. */
  begin(load: () => Promise<AgentDependencies>): void {
    load().then(this.#dependencies.resolve, this.#dependencies.reject);
  }

  /** Stops; the containers go on running. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#status[Symbol.dispose]();
    await this.ready;
    await this.#worker[Symbol.asyncDispose]();
  }
}
