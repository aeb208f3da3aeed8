import { ProviderStore } from "@kip/virtual-kubelet/command";
import { createMockProvider } from "./mock/mock-provider.ts";

/** The built-in providers of this program. */
export function builtInProviders(): ProviderStore {
  const store = new ProviderStore();
  store.register("mock", createMockProvider);
  return store;
}
