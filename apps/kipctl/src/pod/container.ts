import type { OptionValues } from "@kip/base";

/** The container that `-c` or the original's `-u` names. */
export function containerOf(options: OptionValues): string | undefined {
  return options.text("container") ?? options.text("unit");
}
