import { errorText, isCodedError, nearest, OptionError } from "@kip/base";
import { KipError } from "./errors.ts";

interface Command {
  /** One line; one without it is not for people. */
  readonly summary?: string;
  /** Resolves when it is done; prints its help for `--help`. */
  run(args: readonly string[]): Promise<void>;
}

const commands: Readonly<Record<string, Command>> = {
  up: {
    summary:
      "start a local cluster: a real Kubernetes control plane, and cells as virtual machines",
    run: async (args) => (await import("./local/start/up.ts")).up(args),
  },
  down: {
    summary: "remove the local cluster without a trace",
    run: async (args) => (await import("./local/stop/down.ts")).down(args),
  },
  status: {
    summary: "what runs: control plane, node, cells",
    run: async (args) => (await import("./local/status.ts")).status(args),
  },
  local: {
    summary: "cause faults in the local cluster: no capacity, lost cells",
    run: async (args) => (await import("./local/faults/inject-fault.ts")).injectFault(args),
  },
  explain: {
    summary: "what decides whether a pod reaches another pod, a Service or an address",
    run: async (args) => (await import("./explain/explain.ts")).explain(args),
  },
  price: {
    summary:
      "which machines the pods of a manifest would get on AWS, GCE or Azure, and what they cost",
    run: async (args) => (await import("./price/price.ts")).price(args),
  },
  prices: {
    summary: "write what AWS sells today, and for how much, into a file of prices",
    run: async (args) => (await import("./prices/prices.ts")).pricesCommand(args),
  },
  config: {
    summary: "check a provider.yaml",
    run: async (args) => (await import("./config/check-config.ts")).configCommand(args),
  },
  iam: {
    summary: "print the policy that kip needs on AWS",
    run: async (args) => (await import("./iam/iam.ts")).iamCommand(args),
  },
  image: {
    summary: "make the image of AWS (AMI) that cells boot",
    run: async (args) => (await import("./image/image.ts")).imageCommand(args),
  },
  cleanup: {
    summary: "list what kip has in its cloud, or end all of it",
    run: async (args) => (await import("./cleanup/cleanup.ts")).cleanup(args),
  },
  "image-cache": {
    summary: "fill a folder of images that cells share, and remove from it what is unused",
    run: async (args) => (await import("./image-cache/image-cache.ts")).imageCache(args),
  },
  uninstall: {
    summary: "remove a node from its cluster and its cloud, and what kip has made in the cluster",
    run: async (args) => (await import("./uninstall/uninstall.ts")).uninstall(args),
  },
  providers: {
    summary: "names of the providers, as Virtual Kubelet has them",
    run: async ([name]) => printProviders(name),
  },
  version: { summary: "the version of kip", run: async ([flag]) => printVersion(flag) },
  help: { run: async ([name]) => await printHelp(name) },
  "local-daemon": { run: async (args) => (await import("./local/run/daemon.ts")).daemon(args) },
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
  if (command) return await command.run(rest).catch(explainAbsence(first));
  // The provider's options come after the list of commands.
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
  if (isHelp(name))
    return void process.stdout.write(
      "Usage: kip providers [NAME]\n\nPrints the providers, of which there is one; fails if NAME is not one.\n\nExample: kip providers\n",
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

/** The list of commands, or the help of one. */
async function printHelp(name: string | undefined): Promise<void> {
  if (name === undefined || isHelp(name)) return void process.stdout.write(helpText());
  await run([name, "--help"]);
}

function helpText(): string {
  const shown = Object.entries(commands).flatMap(([name, { summary }]) =>
    summary === undefined ? [] : [`  kip ${name.padEnd(11)} ${summary}`],
  );
  return `Kip runs every pod on a machine of its own.

${shown.join("\n")}
  kip [options]   the provider: a virtual node of an existing cluster; kip --help lists the options

kip COMMAND --help shows options and an example of a command.
kipctl, or kubectl kip, shows cells and pods of a cluster, what they cost, and why a pod waits: kipctl --help.

Example: kip up && kubectl get pods,cells -o wide
`;
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
