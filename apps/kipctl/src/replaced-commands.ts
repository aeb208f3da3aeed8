import type { Command } from "./cli/command.ts";
import { clusterOptions, helpOption, toggle } from "./cli/option-table.ts";
import { KipctlError } from "./errors.ts";

/** Commands of the original that have no purpose here. Each names its replacement and fails. */
export const replacedCommands: readonly Command[] = [
  replaced({
    name: "deploy",
    synopsis: "POD PKGNAME FILE",
    why: "Cannot deploy a package: pods get their files from images and volumes",
    instead: "kubectl cp FILE POD:PATH copies into a running pod; a ConfigMap or an image lasts",
  }),
];

function replaced(command: {
  readonly name: string;
  readonly synopsis: string;
  readonly why: string;
  readonly instead: string;
}): Command {
  const { name, synopsis, why, instead } = command;
  return {
    name,
    synopsis,
    summary: `of the original; says what replaces it`,
    details: `${instead}.`,
    options: [...clusterOptions, toggle, helpOption],
    examples: [`${name} --help`],
    run: () => Promise.reject(new KipctlError("COMMAND_REPLACED", why, { remedy: instead })),
  };
}
