// A provider whose start never completes.
import type { PodProvider } from "@kip/virtual-kubelet";

export function createProvider(): PodProvider {
  setInterval(() => {}, 1000);
  return {
    start: () => new Promise(() => {}),
    async apply() {},
    async remove() {},
    async removeUnknown() {},
    presence: async () => "unknown",
    list: async () => [],
    nodeFacts: async () => ({ capacity: {}, internalIp: "192.0.2.1" }),
    async ping() {},
  };
}
