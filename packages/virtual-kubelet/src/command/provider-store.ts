import { nearest, type Clock, type Logger } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import { VirtualKubeletError } from "../errors.ts";
import type { PodProvider } from "../pod-provider.ts";
import type { PolledPodProvider } from "../polling/polled-provider.ts";
import { pollProvider } from "../polling/poll-provider.ts";

/** Arguments of a {@link ProviderFactory}. */
export interface ProviderSetup {
  readonly nodeName: string;
  /** Path of the provider's own configuration file. */
  readonly configPath?: string | undefined;
  readonly os: "linux" | "windows";
  /** Address of the node, which is the `hostIP` of its pods. */
  readonly internalIp: string;
  /** Port of the kubelet API. */
  readonly kubeletPort: number;
  /** DNS domain of the cluster, for example `cluster.local`. */
  readonly clusterDomain: string;
  readonly client: ApiClient;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Creates a provider. A polled one is then adapted. */
export type ProviderFactory = (
  setup: ProviderSetup,
) => PodProvider | PolledPodProvider | Promise<PodProvider | PolledPodProvider>;

/**
 * Providers by name.
 *
 * @example
 * ```ts
 * import { VirtualKubeletError } from "@kip/virtual-kubelet";
 * import { ProviderStore } from "@kip/virtual-kubelet/command";
 *
 * const store = new ProviderStore();
 * store.register("none", () => {
 *   throw new Error("not called here");
 * });
 * assert.deepEqual(store.list(), ["none"]);
 * await assert.rejects(
 *   store.find("nome"),
 *   (error) => VirtualKubeletError.is(error, "VK_PROVIDER_UNKNOWN") && error.remedy === "Did you mean none?",
 * );
 * ```
 */
export class ProviderStore {
  readonly #factories = new Map<string, ProviderFactory>();

  /** @throws {VirtualKubeletError} `VK_PROVIDER_INVALID` for an empty or registered name */
  register(name: string, factory: ProviderFactory): void {
    if (name === "" || this.#factories.has(name))
      throw invalid(name, "its name is empty or taken already");
    this.#factories.set(name, factory);
  }

  /** All names, in alphabetical order. */
  list(): readonly string[] {
    return [...this.#factories.keys()].sort();
  }

  has(name: string): boolean {
    return this.#factories.has(name);
  }

  /**
   * Finds the factory with that name: a registered one, or the export `createProvider` of the npm package or file with that
   * name.
   *
   * @throws {VirtualKubeletError} `VK_PROVIDER_UNKNOWN`; `VK_PROVIDER_INVALID` for a package without that export
   */
  async find(name: string): Promise<ProviderFactory> {
    const registered = this.#factories.get(name);
    if (registered) return registered;
    let module: { readonly createProvider?: unknown };
    try {
      module = (await import(name)) as typeof module; // checked below
    } catch (cause) {
      const near = nearest(name, this.list());
      throw new VirtualKubeletError("VK_PROVIDER_UNKNOWN", `Cannot find provider "${name}"`, {
        cause,
        remedy:
          near === undefined
            ? `Name one of ${this.list().join(", ")}, or an npm package that is installed`
            : `Did you mean ${near}?`,
      });
    }
    const { createProvider } = module;
    if (typeof createProvider === "function") return createProvider as ProviderFactory; // its contract
    throw invalid(name, "the package does not export createProvider");
  }

  /** Creates the provider with that name. A polled one is adapted. */
  async create(name: string, setup: ProviderSetup): Promise<PodProvider> {
    const factory = await this.find(name);
    const made: unknown = await factory(setup);
    for (const call of [
      "apply",
      "remove",
      "presence",
      "list",
      "removeUnknown",
      "nodeFacts",
      "ping",
    ])
      if (typeof (made as Record<string, unknown>)[call] !== "function")
        throw invalid(name, `it has no ${call}()`);
    const provider = made as PodProvider | PolledPodProvider; // checked as far as possible
    return "status" in provider ? pollProvider(provider, setup) : provider;
  }
}

function invalid(name: string, reason: string): VirtualKubeletError {
  return new VirtualKubeletError("VK_PROVIDER_INVALID", `Cannot use provider "${name}": ${reason}`);
}
