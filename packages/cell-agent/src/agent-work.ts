import type { DesiredPod } from "@kip/agent-api";
import { errorText } from "@kip/base";
import type { AgentParts } from "./agent-parts.ts";
import { PodSupervisor, type SupervisorOptions } from "./pod/pod-supervisor.ts";
import { agentHandler, type HandlerOptions } from "./server/agent-handler.ts";
import type { Handler } from "./server/agent-server.ts";
import { StatusStream } from "./server/status-stream.ts";

/** Options of {@link AgentWork}. */
export type AgentWorkOptions = Omit<SupervisorOptions, "onChange"> &
  Omit<HandlerOptions, "supervisor" | "status" | "runtime">;

/** What the agent does besides telling who it is: it keeps a pod. */
export class AgentWork implements AsyncDisposable {
  /** Resolves when containers of an earlier life are taken over, or cannot be. */
  readonly ready: Promise<void>;
  /** Serves what is asked of the pod. */
  readonly serve: Handler;
  readonly #supervisor: PodSupervisor;
  readonly #status: StatusStream;
  readonly #parts = Promise.withResolvers<AgentParts>();

  /** Knows the pod of an earlier life at once. */
  constructor(options: AgentWorkOptions) {
    this.#status = new StatusStream(() => this.#supervisor.report());
    this.#supervisor = new PodSupervisor({ ...options, onChange: () => this.#status.changed() });
    this.serve = agentHandler({
      ...options,
      supervisor: this.#supervisor,
      status: this.#status,
      runtime: async () => (await this.#parts.promise).runtime,
    });
    this.ready = this.#parts.promise
      .then((loaded) => this.#supervisor.begin(loaded))
      .catch((error: unknown) => {
        options.logger.error("Agent cannot work", { err: error });
        this.#supervisor.fail(`The agent of the cell cannot work: ${errorText(error)}`);
      });
  }

  /** The pod that is here, if one is. */
  get pod(): Pick<DesiredPod, "uid" | "generation"> | undefined {
    return this.#supervisor.pod;
  }

  /** Loads the parts and begins. Requests that need a part wait for it; they fail with the reason if it cannot be loaded. */
  begin(load: () => Promise<AgentParts>): void {
    load().then(this.#parts.resolve, this.#parts.reject);
  }

  /** Lets go of the containers, which go on running. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#status[Symbol.dispose]();
    await this.ready;
    await this.#supervisor[Symbol.asyncDispose]();
  }
}
