import path from "node:path";
import type { Container } from "@kip/k8s-types";

/** The node whose kip a Deployment runs, or why the Deployment does not show it. */
export type NodeOfDeployment =
  | { readonly isKnown: true; readonly name: string }
  | { readonly isKnown: false; readonly reason: string };

const flag = "--nodename";
/** The first one that is set counts. */
const variables = ["DEFAULT_NODE_NAME", "DEFAULTNODE_NAME"];
const defaultNodeName = "virtual-kubelet";

/**
 * The node that a pod's kip runs, determined like kip's own command line: the last `--nodename` in the command and its
 * arguments, otherwise the variables for it, otherwise the default. Kubernetes replaces `$(NAME)` in them. It is unknown if
 * only the cluster or a script knows it: a value from elsewhere (`valueFrom`, `envFrom`), or another command than kip's that
 * does not name it.
 */
export function nodeOfContainers(containers: readonly Container[]): NodeOfDeployment {
  const named = containers.map(nodeNamedBy).filter((each) => each !== undefined);
  const [first] = named;
  if (first) {
    const names = new Set(named.flatMap((each) => (each.isKnown ? [each.name] : [])));
    if (names.size > 1) return unknown("its containers name several nodes");
    return named.find(({ isKnown }) => !isKnown) ?? first;
  }
  // Neither names it, so the default counts, unless something else may set the name.
  if (!containers.every(isKip)) return unknown("a container of it has a command that is not kip's");
  if (containers.some(({ envFrom = [] }) => envFrom.length > 0))
    return unknown(`${variables[0]} may be among the variables of envFrom`);
  return { isKnown: true, name: defaultNodeName };
}

/** The name from flag or variable. Undefined if the container has neither. */
function nodeNamedBy(container: Container): NodeOfDeployment | undefined {
  const words = [...(container.command ?? []), ...(container.args ?? [])];
  const given = words.flatMap((word, index) => {
    if (word === flag) return [words[index + 1] ?? ""];
    return word.startsWith(`${flag}=`) ? [word.slice(flag.length + 1)] : [];
  });
  const last = given.findLast((text) => text !== "");
  if (last !== undefined) return resolve(last, container);
  // A shell's command, for example.
  if (words.some((word) => word.includes(flag) && !word.startsWith(flag)))
    return unknown(`${flag} is part of a longer word of its command`);
  for (const name of variables) {
    const variable = container.env?.findLast((each) => each.name === name);
    if (variable?.valueFrom) return unknown(`the value of ${name} is not in it`);
    if ((variable?.value ?? "") !== "") return resolve(variable?.value ?? "", container);
  }
  return undefined;
}

/** Replaces each `$(NAME)` by its literal value. `$$` stands for a dollar sign. */
function resolve(text: string, { env = [] }: Container): NodeOfDeployment {
  const missing: string[] = [];
  const name = text.replaceAll(/\$\$|\$\(([^)]*)\)/g, (whole, key?: string) => {
    if (key === undefined) return "$";
    const variable = env.findLast((each) => each.name === key);
    const value = variable?.valueFrom ? undefined : variable?.value;
    if (value !== undefined && !value.includes("$")) return value;
    missing.push(whole);
    return whole;
  });
  if (missing.length > 0) return unknown(`the value of ${missing.join(" and ")} is not in it`);
  return { isKnown: true, name };
}

/** Whether a container's command is kip's. Without a command, the image's is. */
function isKip({ command = [] }: Container): boolean {
  return command.length === 0 || command.some((word) => path.posix.basename(word) === "kip");
}

function unknown(reason: string): NodeOfDeployment {
  return { isKnown: false, reason };
}
