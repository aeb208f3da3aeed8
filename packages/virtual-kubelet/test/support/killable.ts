import type { ApiClient } from "@kip/k8s-client";
import type { PodProvider } from "@kip/virtual-kubelet";

/**
 * A process that can die: everything it does to the world goes through gates, one before and one
 * behind each call's effect. From its death on every gate stays closed. Gates count
 * from {@link Killable.arm} on.
 */
export class Killable {
  /** Names of the gates that were passed, in order. */
  readonly passed: string[] = [];
  /** Resolves when it has died. */
  readonly death: Promise<void>;
  readonly #died = Promise.withResolvers<void>();
  readonly #killAt: number;
  #isDead = false;
  #isArmed = false;

  /** @param killAt number of the gate at which it dies, from 0; never, if left out */
  constructor(killAt = Number.POSITIVE_INFINITY) {
    this.#killAt = killAt;
    this.death = this.#died.promise;
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  arm(): void {
    this.#isArmed = true;
  }

  /** From here on it does not die by itself. */
  disarm(): void {
    this.#isArmed = false;
  }

  kill(): void {
    this.#isDead = true;
    this.#died.resolve();
  }

  client(client: ApiClient): ApiClient {
    const at = (verb: string, path: string): string => `${verb} ${resourceOf(path)}`;
    return {
      server: client.server,
      get: (path, options) => this.#guard(at("get", path), () => client.get(path, options)),
      list: (path, options) => this.#guard(at("list", path), () => client.list(path, options)),
      create: (path, body, options) =>
        this.#guard(at("create", path), () => client.create(path, body, options)),
      replace: (path, body, options) =>
        this.#guard(at("replace", path), () => client.replace(path, body, options)),
      patch: (path, body, type, options) =>
        this.#guard(at("patch", path), () => client.patch(path, body, type, options)),
      delete: (path, options) =>
        this.#guard(at("delete", path), () => client.delete(path, options)),
      stream: (path, options) => this.#guard(at("watch", path), () => client.stream(path, options)),
      request: (method, path, options) =>
        this.#guard(at(method, path), () => client.request(method, path, options)),
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
    if (!this.#isDead && this.#isArmed) {
      if (this.passed.length === this.#killAt) this.kill();
      this.passed.push(name);
    }
    if (this.#isDead) await new Promise<never>(() => {}); // a killed process never continues
  }
}

function resourceOf(path: string): string {
  return path.replace(/\/namespaces\/[^/]+/, "").replace(/^.*\/v1(beta1)?\//, "");
}
