import type { PortName } from "./group-selector.ts";
import type { NamedPort, PodFacts } from "./pod-facts.ts";
import { maxNumbers } from "./port-numbers.ts";

/** The numbers that one pod has for the name of a port. */
export interface OwnNumbers {
  /** The smallest ones in ascending order, at most {@link maxNumbers} + 1. A pod that has so many has too many. */
  readonly numbers: readonly number[];
  /** The same, with a comma between each two. */
  readonly text: string;
}

const none: OwnNumbers = { numbers: [], text: "" };

/** A cache: groups and rules ask many times for the numbers of each pod. */
const known = new WeakMap<readonly NamedPort[], ReadonlyMap<string, OwnNumbers>>();

/** The numbers that a pod has for the name of a port. */
export function ownNumbers({ ports }: Pick<PodFacts, "ports">, port: PortName): OwnNumbers {
  if (ports.length === 0) return none;
  const ofPod = known.get(ports) ?? read(ports);
  known.set(ports, ofPod);
  return ofPod.get(keyOf(port)) ?? none;
}

/** The same text for the same name and protocol. */
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
