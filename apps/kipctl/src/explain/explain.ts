import { isCodedError } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import type { Command, CommandContext } from "../cli/command.ts";
import { clusterOptions, helpOption, namespaceOption, toggle } from "../cli/option-table.ts";
import { expectWords } from "../cli/words.ts";
import { listKipNodes } from "../cluster/kip-nodes.ts";
import { cellsByPod, listCells } from "../cluster/list-cells.ts";
import { listEventsOf } from "../cluster/list-events.ts";
import { getPod } from "../pod/get-pod.ts";
import { explainText } from "./explain-text.ts";
import type { MachineRequest } from "./why-machine.ts";

export const explainCommand: Command = {
  name: "explain",
  synopsis: "POD [options]",
  summary: "say why a pod has its machine, what it waits for, what it costs and how its start went",
  details: `POD is NAME or NAMESPACE/NAME. kip explain network POD says what decides whether a pod reaches something.`,
  options: [namespaceOption, ...clusterOptions, toggle, helpOption],
  examples: ["explain web", "explain shop/web"],
  run: explain,
};

async function explain(context: CommandContext): Promise<void> {
  const [name = ""] = expectWords(context.words, ["POD"], "explain");
  const { client } = await context.cluster();
  const { signal, now } = context;
  const pod = await getPod(context, name);
  const { namespace, uid } = pod.metadata;
  const [nodes, cells, events] = await Promise.all([
    listKipNodes(client, signal),
    listCells(client, { namespace, signal }),
    listEventsOf(client, { namespace, uid, signal }),
  ]);
  const isOnKip = nodes.includes(pod.spec.nodeName ?? "");
  const cell = cellsByPod(cells).get(uid);
  const request = await requestOf(pod);
  context.out(explainText({ pod, cell, isOnKip, request, events }, now));
}

/** Undefined if an annotation is invalid. The pod's condition then says which one. */
async function requestOf(pod: Pod): Promise<MachineRequest | undefined> {
  const { instanceTypeRequest, requestedDiskBytes } = await import("@kip/kip/selection");
  try {
    return { ...instanceTypeRequest(pod, undefined), diskBytes: requestedDiskBytes(pod) };
  } catch (error) {
    if (!isCodedError(error)) throw error;
    return undefined;
  }
}
