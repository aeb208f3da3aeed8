import {
  explainNetwork,
  listCluster,
  type Finding,
  type NetworkQuestion,
  type Outcome,
} from "@kip/cluster-network";
import { OptionError, silentLogger, type Option, type OptionValues } from "@kip/base";
import { openClient } from "@kip/virtual-kubelet/command";
import { parseCommand } from "../cli/parse-command.ts";
import { separateWords } from "../cli/separate-words.ts";
import { stopRequest } from "../cli/stop-request.ts";
import { findingText } from "./finding-text.ts";

const usage = `Usage: kip explain network POD [--to POD|SERVICE|HOST:PORT] [options]
       kip explain network POD --from POD [options]

Says whether a connection from or to a pod is allowed, and which Services, endpoints and network
policies decide that. Without --to and --from it says where the pod runs, which policies restrict it
and which Services have it as an endpoint.

POD is NAME or NAMESPACE/NAME. SERVICE is NAME, NAMESPACE/NAME, or a DNS name such as web.shop.svc.
Write pod/NAME or service/NAME if a pod and a Service have the same name.

Exit code: 0 the connection is allowed, 1 the command failed, 2 it is not allowed, or not to each
endpoint, 3 it is not known.

Example: kip explain network shop/web --to=database --port=5432`;

const options: readonly Option[] = [
  { flag: "to", type: "string", help: "destination of a connection from POD" },
  { flag: "from", type: "string", help: "pod from which POD is reached" },
  {
    flag: "port",
    type: "string",
    help: "port or protocol: 80, 80/TCP or TCP; default all ports of the Service or pod",
  },
  {
    flag: "kubeconfig",
    type: "string",
    help: "kubeconfig file. Default: the first existing file of those in KUBECONFIG (a:b), else ~/.kube/config",
  },
  {
    flag: "namespace",
    type: "string",
    help: "namespace of names without one; default that of the context",
  },
  { flag: "output", type: "string", fallback: "text", help: "text or json" },
  { flag: "help", type: "boolean", help: "show this text" },
];

const protocols = ["TCP", "UDP", "SCTP"] as const;

const exitCodes: Readonly<Record<Outcome, number>> = {
  described: 0,
  passes: 0,
  refused: 2,
  dropped: 2,
  absent: 2,
  partly: 2,
  unknown: 3,
};

/** Runs `kip explain`. */
export async function explain(args: readonly string[]): Promise<void> {
  const { words, flags } = separateWords(args);
  const values = parseCommand(usage, options, flags);
  if (!values) return;
  const [topic, pod, ...more] = words;
  if (topic !== "network" || pod === undefined || more.length > 0)
    throw new OptionError("OPTION_MISSING", "Cannot explain: write kip explain network POD", {
      remedy: "See kip explain --help",
    });
  const output = values.choice("output", ["text", "json"]);
  const found = await answer(values, pod);
  console.log(output === "json" ? JSON.stringify(found, undefined, 2) : findingText(found));
  process.exitCode = exitCodes[found.outcome];
}

async function answer(values: OptionValues, pod: string): Promise<Finding> {
  const asked = questionOf(values, pod);
  const program = { env: process.env, userAgent: "kip/0.1.0", logger: silentLogger };
  const { client, config } = await openClient(values, program);
  try {
    const question = { ...asked, namespace: values.text("namespace") ?? config.namespace };
    const namespaces = namespacesOf(question);
    const { signal } = stopRequest();
    return explainNetwork(await listCluster(client, { namespaces, signal }), question);
  } finally {
    client.close();
  }
}

/** @throws {OptionError} */
function questionOf(values: OptionValues, pod: string): Omit<NetworkQuestion, "namespace"> {
  const [to, from] = [values.text("to"), values.text("from")];
  if (to !== undefined && from !== undefined)
    throw new OptionError(
      "OPTION_INVALID",
      "Cannot explain: --to and --from are given, one is expected",
    );
  const ends = from === undefined ? { pod, to } : { pod: from, to: podText(pod) };
  return { ...ends, ...portOf(values.text("port")) };
}

/** Names a pod as the destination. A bare name could also mean a Service. */
function podText(pod: string): string {
  return /^(?:pods?|po)\//.test(pod) ? pod : `pod/${pod}`;
}

/** @throws {OptionError} `OPTION_INVALID` */
function portOf(text: string | undefined): Pick<NetworkQuestion, "port" | "protocol"> {
  if (text === undefined) return {};
  const [, number, protocol] = /^(\d{1,5})?\/?(tcp|udp|sctp)?$/i.exec(text) ?? [];
  const port = number === undefined ? undefined : Number(number);
  const isRange = port === undefined || (port >= 1 && port <= 65_535);
  if ((number === undefined && protocol === undefined) || !isRange)
    throw new OptionError("OPTION_INVALID", `Cannot use --port ${text}: a port is expected`, {
      remedy: "Write it like --port=80 or --port=53/UDP",
    });
  return { port, protocol: protocols.find((name) => name === protocol?.toUpperCase()) };
}

/** The namespaces that a question names. Only these are listed if the user may not list all. */
function namespacesOf({ pod, to, namespace }: NetworkQuestion): readonly string[] {
  const named = [pod, to ?? ""].flatMap((text) => text.split("/").slice(0, -1));
  const ofName = /^[^/:]+?\.([a-z0-9-]+)(?:\.svc.*)?(?::\d+)?$/.exec(to ?? "")?.[1];
  const kinds = ["pod", "pods", "po", "service", "services", "svc"];
  const found = [namespace, ...named, ...(ofName === undefined ? [] : [ofName])];
  return [...new Set(found)].filter((name) => !kinds.includes(name));
}
