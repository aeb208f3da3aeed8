import { errorText, isCodedError, nearest, OptionError } from "@kip/base";
import { KipError } from "./errors.ts";

interface Command {
  /** One line for `kip help`. @default the command is internal and not listed */
  readonly summary?: string;
  /** Resolves when the command is done. Prints the help for `--help`. */
  run(args: readonly string[]): Promise<void>;
}

const commands: Readonly<Record<string, Command>> = {
  up: {
    summary:
      "start a local cluster: a real Kubernetes control plane, and virtual machines as cells",
    run: async (args) => (await import("./local/start/up.ts")).up(args),
  },
  down: {
    summary: "remove the local cluster and everything that it made, except the cache",
    run: async (args) => (await import("./local/stop/down.ts")).down(args),
  },
  status: {
    summary: "show what runs of the local cluster: control plane, node, cells",
    run: async (args) => (await import("./local/status.ts")).status(args),
  },
  local: {
    summary: "cause faults in the local cluster, such as no capacity or lost cells",
    run: async (args) => (await import("./local/faults/inject-fault.ts")).injectFault(args),
  },
  explain: {
    summary: "say whether a pod reaches another pod, a Service or an address, and why",
    run: async (args) => (await import("./explain/explain.ts")).explain(args),
  },
  price: {
    summary:
      "say which machines the pods of a manifest would get on AWS, GCE or Azure, and their prices",
    run: async (args) => (await import("./price/price.ts")).price(args),
  },
  prices: {
    summary: "write the instance types and prices that AWS offers today into a file",
    run: async (args) => (await import("./prices/prices.ts")).pricesCommand(args),
  },
  config: {
    summary: "check a provider.yaml, the configuration of the provider",
    run: async (args) => (await import("./config/check-config.ts")).configCommand(args),
  },
  iam: {
    summary: "print the IAM policy that kip needs on AWS",
    run: async (args) => (await import("./iam/iam.ts")).iamCommand(args),
  },
  image: {
    summary: "build the machine image (AMI) that cells boot on AWS",
    run: async (args) => (await import("./image/image.ts")).imageCommand(args),
  },
  cleanup: {
    summary: "list what this kip has in its cloud, or remove a node that no kip runs",
    run: async (args) => (await import("./cleanup/cleanup.ts")).cleanup(args),
  },
  "image-cache": {
    summary: "keep a folder of images that cells share: fill it, and remove unused images",
    run: async (args) => (await import("./image-cache/image-cache.ts")).imageCache(args),
  },
  uninstall: {
    summary: "stop a kip that runs, and remove its node from the cluster and the cloud",
    run: async (args) => (await import("./uninstall/uninstall.ts")).uninstall(args),
  },
  providers: {
    summary: "print the names of the providers, as Virtual Kubelet does",
    run: async ([name]) => printProviders(name),
  },
  version: { summary: "print the version of kip", run: async ([flag]) => printVersion(flag) },
  help: { run: async ([name]) => await printHelp(name) },
  "local-daemon": { run: async (args) => (await import("./local/run/daemon.ts")).daemon(args) },
};

// Files and folders get exactly the modes that the code sets, including those of child processes.
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
  if (command) return await command.run(rest).catch(explainAbsence(first));
  // The list of commands, followed by the provider's options.
  if (first === "--help" || first === "-h") process.stdout.write(`${helpText()}\n`);
  if (first.startsWith("-")) return await (await import("./provider/main.ts")).runProvider(args);
  const near = nearest(
    first,
    Object.keys(commands).filter((name) => commands[name]?.summary !== undefined),
  );
  throw new OptionError("OPTION_UNKNOWN", `Cannot run "kip ${first}": there is no such command`, {
    remedy: near === undefined ? "See kip help" : `Did you mean kip ${near}?`,
  });
}

/** The container image contains the provider, but not the packages of the local cluster. */
function explainAbsence(command: string): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND"))
      throw error;
    throw new KipError(
      "COMMAND_NOT_INSTALLED",
      `Cannot run "kip ${command}": this installation has only the provider`,
      { cause: error, remedy: "Run it in a checkout of Kip's repository, after npm ci" },
    );
  };
}

/** Prints the list of providers, which has one entry, like Virtual Kubelet does. */
function printProviders(name: string | undefined): void {
  if (isHelp(name))
    return void process.stdout.write(
      "Usage: kip providers [NAME]\n\nPrints the names of the providers, of which there is one; fails if NAME is not one.\n\nExample: kip providers\n",
    );
  if (name === undefined || name === "kip") return void process.stdout.write("kip\n");
  throw new OptionError("OPTION_UNKNOWN", `Cannot find provider "${name}"`, {
    remedy: "The only one is kip",
  });
}

function printVersion(flag: string | undefined): void {
  process.stdout.write(
    isHelp(flag)
      ? "Usage: kip version\n\nPrints the version of kip.\n\nExample: kip version\n"
      : "kip 0.1.0\n",
  );
}

function isHelp(word: string | undefined): boolean {
  return word === "--help" || word === "-h";
}

/** Prints the list of commands, or the help of one. */
async function printHelp(name: string | undefined): Promise<void> {
  if (name === undefined || isHelp(name)) return void process.stdout.write(helpText());
  await run([name, "--help"]);
}

function helpText(): string {
  const shown = Object.entries(commands).flatMap(([name, { summary }]) =>
    summary === undefined ? [] : [`  kip ${name.padEnd(11)} ${summary}`],
  );
  return `Kip runs every pod on a machine of its own, which is called a cell.

${shown.join("\n")}
  kip [options]   run a virtual node of an existing cluster; kip --help lists the options

kip COMMAND --help shows the options and an example of a command.
kipctl, or kubectl kip, shows the cells and pods of a cluster, what they cost, and why a pod waits.

Example: kip up && kubectl get pods,cells -o wide
`;
}

/** Prints what failed and what to do, in two or more lines. */
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
