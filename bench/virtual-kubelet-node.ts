// The node of bench/virtual-kubelet.ts, in a process of its own: its memory is measured.
import { createLogger, systemClock } from "@kip/base";
import { createApiClient, loadKubeConfig } from "@kip/k8s-client";
import { startNode } from "@kip/virtual-kubelet";
import { MemoryProvider } from "@kip/virtual-kubelet/testing";

const [kubeconfig = ""] = process.argv.slice(2);
const logger = createLogger({ level: "warn" });
const client = createApiClient(await loadKubeConfig({ path: kubeconfig }), {
  userAgent: "virtual-kubelet/1",
  logger,
  clock: systemClock,
});
const provider = new MemoryProvider();
provider.facts = { ...provider.facts, capacity: { cpu: "100k", memory: "40Ti", pods: "50k" } };
await startNode({ client, nodeName: "bench-vk", provider, clock: systemClock, logger });
process.send?.("ready");
process.on("message", () => {
  const { maxRSS } = process.resourceUsage();
  const rssMiB = process.memoryUsage.rss() / 2 ** 20;
  process.send?.({ rssMiB, maxRssMiB: maxRSS / 1024 });
});
