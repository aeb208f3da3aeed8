import type { ApiClient } from "@kip/k8s-client";
import type { PodProvider } from "@kip/virtual-kubelet";

/**
 * A process that can die: everything it does to the world goes through gates, one before and one
 * behind each call's effect. From the moment of its death on no gate opens any more.
 */
export class Killable {
  /** Names of the gates that were passed, in order. */
  readonly passed: string[] = [];
  /** Resolves when it has died. */
  readonly death: Promise<void>;
  readonly #died = Promise.withResolvers<void>();
  readonly #killAt: number;
  #isDead = false;

  /** @param killAt number of the gate at which it dies, from 0; never, if left out */
  constructor(killAt = Number.POSITIVE_INFINITY) {
    this.#killAt = killAt;
    this.death = this.#died.promise;
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  kill(): void {
    this.#isDead = true;
    this.#died.resolve();
  }

  client(client: ApiClient): ApiClient {
    const wrap =
      <A extends unknown[], R>(name: string, call: (...args: A) => Promise<R>) =>
      (...args: A): Promise<R> =>
        this.#guard(`${name} ${resourceOf(String(args[0]))}`, () => call(...args));
    return {
      server: client.server,
      get: wrap("get", client.get.bind(client)) as ApiClient["get"],
      list: wrap("list", client.list.bind(client)) as ApiClient["list"],
      create: wrap("create", client.create.bind(client)) as ApiClient["create"],
      replace: wrap("replace", client.replace.bind(client)) as ApiClient["replace"],
      patch: wrap("patch", client.patch.bind(client)) as ApiClient["patch"],
      delete: wrap("delete", client.delete.bind(client)) as ApiClient["delete"],
      stream: wrap("watch", client.stream.bind(client)),
      request: (method, path, options) =>
        this.#guard(method, () => client.request(method, path, options)),
      close: () => client.close(),
    };
  }

  provider(provider: PodProvider): PodProvider {
    return {
      start: (callbacks) => this.#guard("start", () => provider.start(callbacks)),
      apply: (pod, signal) => this.#guard("apply", () => provider.apply(pod, signal)),
      remove: (pod, grace, signal) =>
        this.#guard("remove", () => provider.remove(pod, grace, signal)),
      removeUnknown: (uid) => this.#guard("removeUnknown", () => provider.removeUnknown(uid)),
      presence: (uid) => this.#guard("presence", () => provider.presence(uid)),
      list: () => this.#guard("providerList", () => provider.list()),
      nodeFacts: () => this.#guard("nodeFacts", () => provider.nodeFacts()),
      ping: (signal) => this.#guard("ping", () => provider.ping(signal)),
    };
  }

  async #guard<T>(name: string, call: () => Promise<T>): Promise<T> {
    await this.#gate(`before ${name}`);
    const result = await call();
    await this.#gate(`behind ${name}`);
    return result;
  }

  async #gate(name: string): Promise<void> {
    if (!this.#isDead) {
      if (this.passed.length === this.#killAt) this.kill();
      this.passed.push(name);
    }
    if (this.#isDead) await new Promise<never>(() => {}); // the dead wait for ever
  }
}

function resourceOf(path: string): string {
  return path.replace(/\/namespaces\/[^/]+/, "").replace(/^.*\/v1(beta1)?\//, "");
}
