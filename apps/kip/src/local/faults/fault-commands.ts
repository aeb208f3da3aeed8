import type { Option } from "@kip/base";
import { commonOptions } from "../cluster/local-options.ts";

/** A command of `kip local`. */
export interface FaultCommandHelp {
  readonly name: string;
  /** The required argument after the name. @default none */
  readonly operand?: string | undefined;
  readonly help: string;
  readonly options: readonly Option[];
}

const type: Option = {
  flag: "type",
  type: "string",
  help: "instance type, like local.small; default every type",
};

/** The verbs of `kip local`, in the order of the help text. */
export const faultCommands: readonly FaultCommandHelp[] = [
  {
    name: "no-capacity",
    help: "the cloud has no capacity for new cells",
    options: [
      type,
      { flag: "launch-type", type: "string", help: "on-demand, spot or dedicated; default all" },
      { flag: "zone", type: "string", help: "zone; default every zone" },
    ],
  },
  {
    name: "slow-launch",
    help: "new cells take longer to start",
    options: [
      type,
      { flag: "seconds", type: "string", help: "how much longer, like 40 (seconds) or 2m" },
    ],
  },
  { name: "kill", operand: "CELL|POD", help: "the machine of a cell ends at once", options: [] },
  {
    name: "interrupt",
    operand: "CELL|POD",
    help: "the cloud gives notice that it takes the machine of a cell back, and does",
    options: [
      { flag: "notice", type: "string", fallback: "120s", help: "time until the machine ends" },
    ],
  },
  {
    name: "throttle",
    help: "the cloud refuses calls as too many",
    options: [
      { flag: "calls", type: "string", help: "how many calls; default no limit" },
      { flag: "for", type: "string", help: "for how long, like 30s; default no limit" },
    ],
  },
  {
    name: "fail",
    operand: "CALL",
    help: "the next calls of one kind fail: launch, terminate, list, ...",
    options: [
      { flag: "code", type: "string", fallback: "CLOUD_UNAVAILABLE", help: "code of the error" },
      { flag: "calls", type: "string", fallback: "1", help: "how many calls" },
      {
        flag: "after",
        type: "boolean",
        help: "the call has its effect, and only its answer is lost",
      },
    ],
  },
  { name: "status", help: "show the faults in force", options: [] },
  { name: "clear", help: "end all faults; notices that were given stay", options: [] },
];

/** All options of a verb. */
export function optionsOf(verb: FaultCommandHelp): readonly Option[] {
  return [...verb.options, ...commonOptions];
}
