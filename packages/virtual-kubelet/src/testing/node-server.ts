import { PassThrough } from "node:stream";
import type { Clock } from "@kip/base";
import { K8sError, type ApiClient } from "@kip/k8s-client";
import type { Node, Pod, PodStatus } from "@kip/k8s-types";

/** A fake API server for one node and its pods. Its watches deliver no events. Its tokens last an hour. */
export class NodeServer {
  readonly pods: readonly Pod[];
  readonly #clock: Clock;
  /** The Node object. Undefined if there is none. */
  node: Node | undefined;
  /** The answer to a request for `/version`. */
  version: object = {};
  /** Number of issued tokens. */
  tokens = 0;
  /** Written pod statuses, by path. */
  readonly written = new Map<string, PodStatus>();
  /** Error of writing pod statuses. */
  failure: Error | undefined;
  /** Errors of the next creations of the Node, one each. */
  readonly creationFailures: Error[] = [];

  constructor(clock: Clock, pods: readonly Pod[] = []) {
    this.#clock = clock;
    this.pods = pods;
  }

  client(): ApiClient {
    const client = {
      get: async (path: string) => {
        if (path === "/version") return this.version;
        return path.includes("/nodes/") ? this.#found() : {};
      },
      create: async (path: string, body: Node) => this.#create(path, body),
      replace: async (_path: string, body: object) => structuredClone(body),
      patch: async (path: string, body: Node & Pod) =>
        path.includes("/nodes/") ? this.#changeNode(body) : this.#writeStatus(path, body),
      list: async (path: string) => ({
        metadata: { resourceVersion: "1" },
        items: path.endsWith("/pods") ? structuredClone(this.pods) : [],
      }),
      stream: async () => new PassThrough(),
    };
    return client as unknown as ApiClient; // the calls that a node makes
  }

  deleteNode(): void {
    this.node = undefined;
  }

  #found(): Node {
    if (!this.node) throw new K8sError("K8S_NOT_FOUND", "none");
    return structuredClone(this.node);
  }

  #create(path: string, body: Node): object {
    if (path.endsWith("/token")) {
      this.tokens++;
      const expirationTimestamp = new Date(this.#clock.now() + 3_600_000).toISOString();
      return { status: { token: `t${this.tokens}`, expirationTimestamp } };
    }
    if (path.endsWith("/nodes")) {
      const failure = this.creationFailures.shift();
      if (failure) throw failure;
      this.node = body;
    }
    return structuredClone(body);
  }

  #changeNode(body: Node): Node {
    this.node = { ...this.#found(), ...body };
    return this.#found();
  }

  #writeStatus(path: string, { status }: Pod): object {
    if (this.failure) throw this.failure;
    this.written.set(path, { ...status });
    return structuredClone(this.pods[0] ?? {});
  }
}
