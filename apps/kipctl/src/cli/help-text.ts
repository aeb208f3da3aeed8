import { helpText } from "@kip/base";
import type { Command } from "./command.ts";
import type { LetteredOption } from "./command-line.ts";

/** The help of the program: a list of its commands. */
export function programHelp(program: string, commands: readonly Command[]): string {
  const width = Math.max(...commands.map(({ name }) => name.length));
  const lines = commands.map(
    ({ name, summary }) => `  ${program} ${name.padEnd(width)}  ${summary}`,
  );
  return `Shows and changes what kip runs: cells, their pods, what they cost and why.

${lines.join("\n")}

${program} COMMAND --help shows options and examples of a command.

Example: ${program} get cells -o wide
`;
}

/** The help of one command. */
export function commandHelp(program: string, command: Command): string {
  const { name, synopsis, summary, details, options, examples } = command;
  const upper = `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`;
  const usage = [
    `Usage: ${program} ${name} ${synopsis}`.trimEnd(),
    upper,
    ...(details === undefined ? [] : [details]),
    `Examples:\n${examples.map((example) => `  ${program} ${example}`).join("\n")}`,
  ];
  return helpText(usage.join("\n\n"), options.map(withLetter));
}

function withLetter(option: LetteredOption): LetteredOption {
  const { letter, help } = option;
  return letter === undefined ? option : { ...option, help: `${help}; -${letter} for short` };
}
