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

/** Connects the pod's worker with the server: runs the cell's pod, and handles requests about it. */
export class PodService implements AsyncDisposable {
  /** Resolves when running containers have been taken over, or when that has failed. */
  readonly ready: Promise<void>;
  /** Resolves when a container of the pod is running, whichever process of the agent started it. */
  readonly running: Promise<void>;
  /** Handles requests about the pod. */
  readonly serve: Handler;
  readonly #worker: AgentWorker;
  readonly #status: StatusStream;
  readonly #options: PodServiceOptions;
  readonly #dependencies = Promise.withResolvers<AgentDependencies>();

  /** Restores the pod of an earlier process at once. */
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

  /** The cell's pod. Undefined if it has none yet. */
  get pod(): Pick<DesiredPod, "uid" | "generation"> | undefined {
    return this.#worker.pod;
  }

  /** Adds EC2's notices for this machine to the pod's reports, until the signal aborts. */
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

  /**
   * Loads the dependencies and starts. Requests that need a dependency wait for it, and fail with its error if it cannot be
   * loaded.
   */
  begin(load: () => Promise<AgentDependencies>): void {
    load().then(this.#dependencies.resolve, this.#dependencies.reject);
  }

  /** Stops. The containers keep running. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#status[Symbol.dispose]();
    await this.ready;
    await this.#worker[Symbol.asyncDispose]();
  }
}
