import { errorText, isCodedError, nearest, OptionError } from "@kip/base";
import { KipError } from "./errors.ts";

const help = `Kip runs every pod on a machine of its own.

  kip up          start a local cluster: a real Kubernetes control plane, and cells as virtual machines
  kip down        remove the local cluster without a trace
  kip status      what runs: control plane, node, cells
  kip explain     what decides whether a pod reaches another pod, a Service or an address (kip explain --help)
  kip price       which machines the pods of a manifest would get on AWS, GCE or Azure, and what they cost
  kip config      check a provider.yaml (kip config --help)
  kip cleanup     list what kip has in its cloud, or end all of it (kip cleanup --help)
  kip iam         print the policy that kip needs on AWS (kip iam --help)
  kip local       cause faults in the local cluster: no capacity, lost cells (kip local --help)
  kip [options]   the provider: a virtual node of an existing cluster (kip --help lists the options)
  kip version
`;

const commands: Readonly<Record<string, (args: readonly string[]) => Promise<void>>> = {
  up: async (args) => (await import("./local/start/up.ts")).up(args),
  down: async (args) => (await import("./local/stop/down.ts")).down(args),
  status: async (args) => (await import("./local/status.ts")).status(args),
  local: async (args) => (await import("./local/faults/inject-fault.ts")).injectFault(args),
  config: async (args) => (await import("./config/check-config.ts")).configCommand(args),
  cleanup: async (args) => (await import("./cleanup/cleanup.ts")).cleanup(args),
  explain: async (args) => (await import("./explain/explain.ts")).explain(args),
  iam: async (args) => (await import("./iam/iam.ts")).iamCommand(args),
  price: async (args) => (await import("./price/price.ts")).price(args),
  "local-daemon": async (args) => (await import("./local/run/daemon.ts")).daemon(args),
  providers: async ([name]) => printProviders(name),
  version: async () => void process.stdout.write("kip 0.1.0\n"),
  help: async () => void process.stdout.write(help),
};

// The modes of files and folders are those that the code names, also in programs that it starts.
process.umask(0o022);
try {
  await run(process.argv.slice(2));
} catch (error) {
  printFailure(error);
  process.exitCode = 1;
}

async function run(args: readonly string[]): Promise<void> {
  const [first = "help", ...rest] = args;
  const command = Object.hasOwn(commands, first) ? commands[first] : undefined;
  if (command) return await command(rest).catch(explainAbsence(first));
  if (first.startsWith("-")) return await (await import("./provider/main.ts")).runProvider(args);
  const near = nearest(
    first,
    Object.keys(commands).filter((name) => name !== "local-daemon"),
  );
  throw new OptionError("OPTION_UNKNOWN", `Cannot run "kip ${first}": there is no such command`, {
    remedy: near === undefined ? "See kip help" : `Did you mean kip ${near}?`,
  });
}

/** The container image has the provider, and not what makes a local cluster. */
function explainAbsence(command: string): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND"))
      throw error;
    throw new KipError(
      "COMMAND_NOT_INSTALLED",
      `Cannot run "kip ${command}": this installation has the provider alone`,
      { cause: error, remedy: "Run it in a checkout of Kip's repository, after npm ci" },
    );
  };
}

/** Prints the providers, of which there is one, as Virtual Kubelet does. */
function printProviders(name: string | undefined): void {
  if (name === undefined || name === "kip") return void process.stdout.write("kip\n");
  throw new OptionError("OPTION_UNKNOWN", `Cannot find provider "${name}"`, {
    remedy: "The only one is kip",
  });
}

/** Tells a person what failed and what to do, in two lines or more. */
function printFailure(error: unknown): void {
  console.error(`kip: ${errorText(error)}`);
  const remedy = findRemedy(error);
  if (remedy !== undefined) console.error(`     ${remedy.replaceAll("\n", "\n     ")}`);
  if (!isCodedError(error) && error instanceof Error) console.error(error.stack);
}

function findRemedy(error: unknown): string | undefined {
  for (let current = error; current instanceof Error; current = current.cause) {
    if (isCodedError(current) && current.remedy !== undefined) return current.remedy;
  }
  return undefined;
}
