import type { OptionValues } from "@kip/base";

/** Whether `--cloud` asks for EC2 on this computer. @throws {OptionError} `OPTION_INVALID` for an unknown cloud */
export function isEc2(options: OptionValues): boolean {
  return options.choice("cloud", ["local", "ec2-local"]) === "ec2-local";
}
