// The node of bench/virtual-kubelet.ts, in a process of its own: its memory and its CPU time are measured. It is
// JavaScript, and runs the packed library, as a program would that is installed: Node's type stripping alone
// holds 27 MB.
// Arguments: folder of the built package, kubeconfig, name of the node.
const [folder, kubeconfig, nodeName] = process.argv.slice(2);
const { createApiClient, createLogger, loadKubeConfig, startNode, systemClock } = await import(
  `${folder}/dist/index.js`
);
const { MemoryProvider } = await import(`${folder}/dist/testing/index.js`);

const shared = { clock: systemClock, logger: createLogger({ level: "warn" }) };
const config = await loadKubeConfig({ path: kubeconfig });
const client = createApiClient(config, { ...shared, userAgent: "virtual-kubelet/1" });
const provider = new MemoryProvider();
provider.facts = { ...provider.facts, capacity: { cpu: "100k", memory: "40Ti", pods: "50k" } };
await startNode({ ...shared, client, nodeName, provider });
process.send("ready");
process.on("message", () => {
  const { user, system } = process.cpuUsage();
  process.send({
    rssMiB: process.memoryUsage.rss() / 2 ** 20,
    maxRssMiB: process.resourceUsage().maxRSS / 2 ** 10,
    cpuMs: (user + system) / 1000,
  });
});
