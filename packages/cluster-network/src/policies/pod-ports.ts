import type { PortName } from "./group-selector.ts";
import type { NamedPort, PodFacts } from "./pod-facts.ts";
import { maxNumbers } from "./port-numbers.ts";

/** The numbers that one pod has for the name of a port. */
export interface OwnNumbers {
  /** The smallest numbers in ascending order, at most {@link maxNumbers} + 1. A pod with that many has too many. */
  readonly numbers: readonly number[];
  /** The same numbers, separated by commas. */
  readonly text: string;
}

const none: OwnNumbers = { numbers: [], text: "" };

/** A cache, because groups and rules need the numbers of each pod many times. */
const known = new WeakMap<readonly NamedPort[], ReadonlyMap<string, OwnNumbers>>();

/** The numbers that a pod has for the name of a port. */
export function ownNumbers({ ports }: Pick<PodFacts, "ports">, port: PortName): OwnNumbers {
  if (ports.length === 0) return none;
  const ofPod = known.get(ports) ?? read(ports);
  known.set(ports, ofPod);
  return ofPod.get(keyOf(port)) ?? none;
}

/** A key for the name and protocol of a port. */
export function keyOf({ name, protocol }: PortName): string {
  return `${protocol} ${name}`;
}

function read(ports: readonly NamedPort[]): ReadonlyMap<string, OwnNumbers> {
  const all = new Map<string, Set<number>>();
  for (const port of ports) {
    const key = keyOf(port);
    const numbers = all.get(key);
    if (numbers) numbers.add(port.port);
    else all.set(key, new Set([port.port]));
  }
  const first = (set: ReadonlySet<number>): OwnNumbers => {
    const numbers = [...set].sort((a, b) => a - b).slice(0, maxNumbers + 1);
    return { numbers, text: numbers.join() };
  };
  return new Map([...all].map(([key, set]) => [key, first(set)]));
}
