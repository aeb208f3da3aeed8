import { ProviderStore } from "@kip/virtual-kubelet/command";
import { createMockProvider } from "./mock/mock-provider.ts";

/** The providers that this program brings along. */
export function builtInProviders(): ProviderStore {
  const store = new ProviderStore();
  store.register("mock", createMockProvider);
  return store;
}
