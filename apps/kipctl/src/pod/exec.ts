import { OptionError } from "@kip/base";
import type { Command, CommandContext } from "../cli/command.ts";
import type { LetteredOption } from "../cli/command-line.ts";
import { clusterOptions, helpOption, namespaceOption, unitOptions } from "../cli/option-table.ts";
import { expectWords } from "../cli/words.ts";
import { containerOf } from "./container.ts";
import { runKubectl } from "./run-kubectl.ts";

const kubectlOption: LetteredOption = {
  flag: "kubectl",
  type: "string",
  env: "KIPCTL_KUBECTL",
  fallback: "kubectl",
  help: "the kubectl that is run",
};
const stdin: LetteredOption = {
  flag: "stdin",
  letter: "i",
  type: "boolean",
  help: "pass standard input on",
};
const tty: LetteredOption = { flag: "tty", letter: "t", type: "boolean", help: "with a terminal" };

const streamOptions: readonly LetteredOption[] = [
  stdin,
  tty,
  ...unitOptions,
  kubectlOption,
  namespaceOption,
  ...clusterOptions,
  helpOption,
];

export const execCommand: Command = {
  name: "exec",
  synopsis: "POD [-i] [-t] [options] -- COMMAND...",
  summary: "run a command in a container of a pod",
  details: "Runs kubectl exec with the same kubeconfig. The exit code is that of the command.",
  options: streamOptions,
  examples: ["exec web -- ls /", "exec -it web -u sidecar -- sh"],
  run: exec,
};

export const attachCommand: Command = {
  name: "attach",
  synopsis: "POD [-i] [-t] [options]",
  summary: "connect to what runs in a container of a pod",
  details: "Runs kubectl attach with the same kubeconfig.",
  options: streamOptions,
  examples: ["attach web", "attach -it web -u shell"],
  run: async (context) => {
    const [pod = ""] = expectWords(context.words, ["POD"], "attach");
    return await runKubectl(context, {
      verb: "attach",
      pod,
      flags: streamFlags(context),
      rest: [],
    });
  },
};

async function exec(context: CommandContext): Promise<number> {
  const { words, rest = [] } = context;
  const [pod = ""] = expectWords(words.slice(0, 1), ["POD"], "exec");
  if (rest.length === 0 || words.length > 1)
    throw new OptionError(
      "OPTION_MISSING",
      `Cannot run a command in "${pod}": none is given after --`,
      {
        remedy: `Write ${context.program} exec ${pod} -- ${words.slice(1).join(" ") || "sh"}`,
      },
    );
  return await runKubectl(context, { verb: "exec", pod, flags: streamFlags(context), rest });
}

function streamFlags({ options }: CommandContext): readonly string[] {
  const container = containerOf(options);
  return [
    ...(options.isSet("stdin") ? ["--stdin"] : []),
    ...(options.isSet("tty") ? ["--tty"] : []),
    ...(container === undefined ? [] : [`--container=${container}`]),
  ];
}
