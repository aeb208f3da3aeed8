import { helpText, parseOptions, type Option, type OptionValues } from "@kip/base";

/**
 * Parses the arguments of a command.
 *
 * @returns undefined after printing the help, if the arguments ask for it
 * @throws {OptionError}
 */
export function parseCommand(
  usage: string,
  options: readonly Option[],
  args: readonly string[],
): OptionValues | undefined {
  const values = parseOptions(options, args, process.env);
  if (!values.isSet("help")) return values;
  process.stdout.write(helpText(usage, options));
  return undefined;
}
