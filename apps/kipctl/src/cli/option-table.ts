import type { LetteredOption } from "./command-line.ts";

/** Options of all commands that access the cluster. */
export const clusterOptions: readonly LetteredOption[] = [
  {
    flag: "kubeconfig",
    type: "string",
    help: "kubeconfig. Default: the first existing file of those in KUBECONFIG (a:b), else ~/.kube/config",
  },
  { flag: "context", type: "string", help: "context of the kubeconfig; default its current one" },
  {
    flag: "endpoints",
    type: "list",
    help: "kip serves no port of its own for kipctl; --kubeconfig and --context name the cluster",
    hasNoEffect: true,
  },
];

/** A switch of the original that had no effect. `exec` uses its letter for the terminal. */
export const toggle: LetteredOption = {
  flag: "toggle",
  letter: "t",
  type: "boolean",
  help: "it never had one",
  hasNoEffect: true,
};

export const namespaceOption: LetteredOption = {
  flag: "namespace",
  letter: "n",
  type: "string",
  help: "namespace; default that of the context",
};

/** The namespace option of commands that cover the whole cluster by default. */
export const narrowingNamespace: LetteredOption = {
  ...namespaceOption,
  help: "only pods of this namespace; default all",
};

export const allNamespaces: LetteredOption = {
  flag: "all-namespaces",
  letter: "A",
  type: "boolean",
  help: "pods of all namespaces",
};

export const selectorOption: LetteredOption = {
  flag: "selector",
  letter: "l",
  type: "string",
  help: "labels, app=web or 'app in (a,b)'",
};

export const fileOption: LetteredOption = {
  flag: "filename",
  letter: "f",
  type: "string",
  help: "YAML or JSON with one object or more; - is standard input",
};

/** The container options. The original called containers units. */
export const unitOptions: readonly LetteredOption[] = [
  { flag: "container", letter: "c", type: "string", help: "container; default the pod's first" },
  { flag: "unit", letter: "u", type: "string", help: "the same, as the original called it" },
];

export const helpOption: LetteredOption = { flag: "help", type: "boolean", help: "show this text" };
