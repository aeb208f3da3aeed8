import type { Option } from "@kip/base";
import { commonOptions } from "../cluster/local-options.ts";

/** A command of `kip local`. */
export interface FaultCommandHelp {
  readonly name: string;
  /** The word that follows it, if one has to. */
  readonly operand?: string | undefined;
  readonly help: string;
  readonly options: readonly Option[];
}

const type: Option = {
  flag: "type",
  type: "string",
  help: "instance type, like local.small; default every type",
};

/** The verbs of `kip local`, in the order of the help. */
export const faultCommands: readonly FaultCommandHelp[] = [
  {
    name: "no-capacity",
    help: "no new cell starts",
    options: [
      type,
      { flag: "launch-type", type: "string", help: "on-demand, spot or dedicated; default all" },
      { flag: "zone", type: "string", help: "zone; default every zone" },
    ],
  },
  {
    name: "slow-launch",
    help: "new cells take longer to start",
    options: [type, { flag: "seconds", type: "string", help: "by how much, like 40 or 2m" }],
  },
  { name: "kill", operand: "CELL|POD", help: "a cell is gone from now on", options: [] },
  {
    name: "interrupt",
    operand: "CELL|POD",
    help: "the cloud says that it takes a cell back, and does",
    options: [
      { flag: "notice", type: "string", fallback: "120s", help: "how long the cell still has" },
    ],
  },
  {
    name: "throttle",
    help: "the cloud refuses calls because there are too many",
    options: [
      { flag: "calls", type: "string", help: "how many; default no limit" },
      { flag: "for", type: "string", help: "for how long, like 30s; default no limit" },
    ],
  },
  {
    name: "fail",
    operand: "CALL",
    help: "the next calls of one kind fail: launch, terminate, list, ...",
    options: [
      { flag: "code", type: "string", fallback: "CLOUD_UNAVAILABLE", help: "with which error" },
      { flag: "calls", type: "string", fallback: "1", help: "how many" },
      { flag: "after", type: "boolean", help: "the call is done, and only its answer is lost" },
    ],
  },
  { name: "status", help: "what is in force", options: [] },
  { name: "clear", help: "end it all; notices that were given stay", options: [] },
];

/** All options of a verb. */
export function optionsOf(verb: FaultCommandHelp): readonly Option[] {
  return [...verb.options, ...commonOptions];
}
