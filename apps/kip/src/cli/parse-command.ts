import { helpText, parseOptions, type Option, type OptionValues } from "@kip/base";

/**
 * Reads the arguments of a command.
 *
 * @returns undefined if its help was asked for, which has been printed
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
