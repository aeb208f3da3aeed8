import { OptionError, type OptionValues } from "@kip/base";

/**
 * Parses `--feature-gates` or `--runtime-config`, in the syntax of the Kubernetes programs.
 *
 * @throws {OptionError} `OPTION_INVALID`
 */
export function switches(
  options: OptionValues,
  flag: "feature-gates" | "runtime-config",
): Readonly<Record<string, boolean>> {
  const text = options.text(flag) ?? "";
  if (text === "") return {};
  const pairs = text.split(",").map((each): readonly [string, boolean] => {
    const [name = "", value, ...more] = each.split("=");
    const isPair = more.length === 0 && (value === "true" || value === "false");
    if (isPair && /^[\w./-]+$/.test(name)) return [name, value === "true"];
    throw new OptionError(
      "OPTION_INVALID",
      `Cannot use --${flag} ${text}: "${each}" is not a pair`,
      {
        remedy: "Give NAME=true or NAME=false, with commas between them",
      },
    );
  });
  return Object.fromEntries(pairs);
}
