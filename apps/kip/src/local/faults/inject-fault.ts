import { nearest, systemClock, OptionError, type OptionValues } from "@kip/base";
import { cloudErrorCodes, type CapacityScope } from "@kip/cloud";
import { cloudOperations } from "@kip/cloud";
import { openLocalFaults, type LocalFaults, type NamedMachine } from "@kip/cloud-local/faults";
import { parseDuration } from "../../cli/duration.ts";
import { requireRunning } from "../cluster/cluster-record.ts";
import { describeRule } from "./describe-rule.ts";
import { localLayout } from "../cluster/layout.ts";
import { requireRoot } from "../cluster/requirements.ts";
import { optionsOf, faultCommands, type FaultCommandHelp } from "./fault-commands.ts";
import { parseCommand } from "../../cli/parse-command.ts";

const launchTypes = ["on-demand", "spot", "dedicated"] as const;

interface FaultArguments {
  readonly options: OptionValues;
  readonly operand: string;
}

type FaultCommand = (faults: LocalFaults, args: FaultArguments) => Promise<string>;

/** The function for each verb. Its result is printed. */
const commands: Readonly<Record<string, FaultCommand>> = {
  "no-capacity": async (faults, { options }) => {
    const scope = capacityScope(faults, options);
    await faults.noCapacity(scope);
    return `From now on: ${describeRule({ kind: "no-capacity", scope })}. kip local clear ends it`;
  },
  "slow-launch": async (faults, { options }) => {
    const instanceType = typeOption(faults, options);
    const ms = parseDuration("seconds", options.required("seconds"));
    const slow = { ms, instanceType };
    await faults.slowLaunch(slow);
    return `From now on: ${describeRule({ kind: "slow-launch", ...slow })}. kip local clear ends it`;
  },
  kill: async (faults, { operand }) => {
    const machine = await faults.find(operand);
    await faults.kill(machine.id);
    return `${titleOf(machine)} is gone`;
  },
  interrupt: async (faults, { operand, options }) => {
    const noticeMs = parseDuration("notice", options.required("notice"));
    const machine = await faults.find(operand);
    await faults.interrupt(machine.id, noticeMs);
    return `${titleOf(machine)} got notice that it ends in ${noticeMs / 1000} s`;
  },
  throttle: async (faults, { options }) => {
    const time = options.text("for");
    const calls = options.text("calls") === undefined ? undefined : callsOption(options);
    const ms = time === undefined ? undefined : parseDuration("for", time);
    await faults.throttle({ calls, ms });
    const until = ms === undefined ? undefined : systemClock.now() + ms;
    return `From now on: ${describeRule({ kind: "throttle", calls, until })}`;
  },
  fail: async (faults, { operand, options }) => {
    const fault = {
      operation: oneOf("call", operand, cloudOperations),
      code: oneOf("--code", options.required("code"), cloudErrorCodes),
      calls: callsOption(options),
      moment: options.isSet("after") ? ("after" as const) : ("before" as const),
    };
    await faults.fail(fault);
    return `From now on: ${describeRule({ kind: "fail", ...fault })}`;
  },
  status: async (faults) => {
    const { rules, notices } = await faults.report();
    const lines = [
      ...rules.map(describeRule),
      ...notices.map((machine) => `notice: ${titleOf(machine)} ends at ${machine.endsAt}`),
    ];
    return lines.length === 0 ? "No faults are active" : lines.join("\n");
  },
  clear: async (faults) => {
    await faults.clear();
    const { notices } = await faults.report();
    const rest = notices.map((machine) => `; ${titleOf(machine)} still ends at ${machine.endsAt}`);
    return `No faults are active${rest.join("")}`;
  },
};

/** Causes a fault in the local cloud, to show how Kip handles it. */
export async function injectFault(args: readonly string[]): Promise<void> {
  const [word = "--help", ...rest] = args;
  if (word === "--help" || word === "-h" || word === "help")
    return void process.stdout.write(usage());
  const verb = faultCommands.find(({ name }) => name === word);
  if (!verb) throw unknownVerb(word);
  const { operand, flags } = splitOperand(verb, rest);
  const options = parseCommand(verbUsage(verb), optionsOf(verb), flags);
  if (!options) return;
  if (verb.operand !== undefined && operand === "") {
    throw new OptionError(
      "OPTION_MISSING",
      `Cannot do kip local ${verb.name}: ${verb.operand} is missing`,
      {
        remedy: `Write kip local ${verb.name} ${verb.operand}`,
      },
    );
  }
  requireRoot("change");
  const layout = localLayout(options);
  const { cloud } = await requireRunning(layout, "change the local cloud");
  const instanceTypes = cloud === "ec2-local" ? await ec2Types() : undefined;
  const faults = openLocalFaults({ stateDir: layout.machinesDir, instanceTypes });
  const answer = await commands[verb.name]?.(faults, { options, operand });
  if (answer !== undefined) console.log(answer);
}

/** Loaded on demand, because the catalog is large. */
async function ec2Types(): Promise<readonly string[]> {
  const { ec2Offers } = await import("../ec2/ec2-offers.ts");
  return ec2Offers().map(({ name }) => name);
}

function capacityScope(faults: LocalFaults, options: OptionValues): CapacityScope {
  const instanceType = typeOption(faults, options);
  const zone = options.text("zone");
  const launch = options.text("launch-type");
  const launchType = launch === undefined ? undefined : oneOf("--launch-type", launch, launchTypes);
  return {
    instanceType,
    zone: zone === undefined ? undefined : oneOf("--zone", zone, ["local"]),
    launchType,
  };
}

function typeOption(faults: LocalFaults, options: OptionValues): string | undefined {
  const given = options.text("type");
  return given === undefined ? undefined : oneOf("--type", given, faults.instanceTypes);
}

function callsOption(options: OptionValues): number {
  return options.integer("calls", { min: 1, max: 1_000_000 });
}

function oneOf<T extends string>(what: string, given: string, known: readonly T[]): T {
  const found = known.find((each) => each === given);
  if (found !== undefined) return found;
  const near = nearest(given, known);
  throw new OptionError("OPTION_INVALID", `Cannot use ${what} "${given}": it is not known here`, {
    remedy: near === undefined ? `Use one of ${known.join(", ")}` : `Did you mean ${near}?`,
  });
}

function splitOperand(verb: FaultCommandHelp, args: readonly string[]) {
  const [first = "", ...rest] = args;
  const isOperand = verb.operand !== undefined && first !== "" && !first.startsWith("-");
  return isOperand ? { operand: first, flags: rest } : { operand: "", flags: args };
}

function titleOf({ name, pod }: NamedMachine): string {
  return pod === undefined ? `Cell ${name}` : `Cell ${name} of pod ${pod}`;
}

function unknownVerb(word: string): OptionError {
  const near = nearest(
    word,
    faultCommands.map(({ name }) => name),
  );
  return new OptionError(
    "OPTION_UNKNOWN",
    `Cannot do "kip local ${word}": there is no such command`,
    {
      remedy: near === undefined ? "See kip local --help" : `Did you mean kip local ${near}?`,
    },
  );
}

function usage(): string {
  const lines = faultCommands.map(({ name, operand = "", help }) =>
    `  kip local ${name} ${operand}`.padEnd(36).concat(help),
  );
  return `Usage: kip local COMMAND [options]\n\nCauses faults in the local cluster, to see how Kip handles them.\n\n${lines.join("\n")}\n\nFaults last until kip local clear or kip down. kip local COMMAND --help lists the options.\n\nExample: kip local status\n`;
}

function verbUsage(verb: FaultCommandHelp): string {
  const { name, operand, help } = verb;
  const words = [name, ...(operand === undefined ? [] : [operand])].join(" ");
  return `Usage: kip local ${words} [options]\n\n${help.charAt(0).toUpperCase()}${help.slice(1)}.`;
}
