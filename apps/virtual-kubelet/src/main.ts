import { errorText, helpText, isCodedError, parseOptions } from "@kip/base";
import { VirtualKubeletError } from "@kip/virtual-kubelet";
import { withKlogNames } from "@kip/virtual-kubelet/command";
import { commandOptions } from "./options.ts";
import { builtInProviders } from "./providers.ts";
import { runNode } from "./run.ts";

const usage = `Usage: virtual-kubelet [options]
       virtual-kubelet version
       virtual-kubelet providers [name]

Runs a Kubernetes node whose pods a provider runs.`;

/** Maximum time until the process exits after everything is closed, milliseconds. */
const exitDelayMs = 2000;

try {
  await main(process.argv.slice(2));
} catch (error) {
  console.error(`virtual-kubelet: ${errorText(error)}`);
  if (isCodedError(error) && error.remedy !== undefined) console.error(`     ${error.remedy}`);
  process.exitCode = 1;
}
// A hanging provider may leave handles open, which must not keep the process running.
setTimeout(() => process.exit(), exitDelayMs).unref();

async function main(args: readonly string[]): Promise<void> {
  const [command, name] = args;
  if (command === "version") return void process.stdout.write("virtual-kubelet 0.1.0\n");
  if (command === "providers") return listProviders(name);
  const words = command === "help" ? ["--help"] : withKlogNames(args);
  const options = parseOptions(commandOptions, words, process.env);
  if (options.isSet("help")) return void process.stdout.write(helpText(usage, commandOptions));
  const stopped = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => stopped.abort(new Error(`${signal} received`)));
  await runNode(options, process.env, stopped.signal).catch((error: unknown) => {
    if (!stopped.signal.aborted) throw error; // otherwise it was stopped before the node had started
  });
}

function listProviders(name: string | undefined): void {
  const store = builtInProviders();
  if (name === undefined) return void process.stdout.write(`${store.list().join("\n")}\n`);
  if (!store.has(name))
    throw new VirtualKubeletError("VK_PROVIDER_UNKNOWN", `Cannot find provider "${name}"`);
  process.stdout.write(`${name}\n`);
}
