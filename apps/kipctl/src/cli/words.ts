import { OptionError } from "@kip/base";

/**
 * Checks how many words a command got, and returns them.
 *
 * @throws {OptionError} `OPTION_MISSING`, `OPTION_INVALID`
 */
export function expectWords(
  words: readonly string[],
  names: readonly string[],
  command: string,
): readonly string[] {
  const missing = names[words.length];
  const usage = [command, ...names].join(" ");
  if (missing !== undefined)
    throw new OptionError("OPTION_MISSING", `Cannot run ${command}: ${missing} is not given`, {
      remedy: `Write ${usage}`,
    });
  const more = words[names.length];
  if (more !== undefined)
    throw new OptionError(
      "OPTION_INVALID",
      `Cannot run ${command}: "${more}" is one word too many`,
      {
        remedy: `Write ${usage}`,
      },
    );
  return words;
}
