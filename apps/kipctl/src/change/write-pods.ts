import { paths, type KubeObject } from "@kip/k8s-client";
import type { Command, CommandContext } from "../cli/command.ts";
import {
  clusterOptions,
  fileOption,
  helpOption,
  namespaceOption,
  toggle,
} from "../cli/option-table.ts";
import { expectWords } from "../cli/words.ts";
import { currentNamespace } from "../pod/get-pod.ts";
import { readManifest, type ManifestPod } from "./manifest.ts";

const options = [fileOption, namespaceOption, ...clusterOptions, toggle, helpOption];

export const createCommand: Command = {
  name: "create",
  synopsis: "-f FILE [options]",
  summary: "create the pods of a file",
  details: `As kubectl create -f, for pods alone. They run on kip if they are scheduled to its node, by a nodeSelector or a toleration for example.`,
  options,
  examples: ["create -f pods.yaml", "create -n shop -f -"],
  run: async (context) => await writePods(context, "create"),
};

export const updateCommand: Command = {
  name: "update",
  synopsis: "-f FILE [options]",
  summary: "change pods to what a file says",
  details: `Merges each pod of the file into the one of the cluster. Of a pod that exists, Kubernetes takes changes of labels, annotations,
images, tolerations and deadlines.`,
  options,
  examples: ["update -f pods.yaml"],
  run: async (context) => await writePods(context, "update"),
};

async function writePods(context: CommandContext, verb: "create" | "update"): Promise<void> {
  expectWords(context.words, [], verb);
  const pods = await readManifest(context.options);
  const namespace = await currentNamespace(context);
  for (const pod of pods) {
    const written = await write(context, { ...pod, namespace: pod.namespace ?? namespace }, verb);
    context.out(`pod/${written.metadata.name} ${verb}d\n`);
  }
}

async function write(
  context: CommandContext,
  { name, namespace, object }: ManifestPod,
  verb: "create" | "update",
): Promise<KubeObject> {
  const { client } = await context.cluster();
  const { signal } = context;
  return verb === "create"
    ? await client.create<KubeObject>(paths.pods(namespace), object, { signal })
    : await client.patch<KubeObject>(paths.pods(namespace, name), object, "strategic", { signal });
}
