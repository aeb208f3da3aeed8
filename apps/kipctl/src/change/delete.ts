import { OptionError } from "@kip/base";
import { isNotFound, paths } from "@kip/k8s-client";
import type { Command, CommandContext } from "../cli/command.ts";
import {
  clusterOptions,
  fileOption,
  helpOption,
  namespaceOption,
  toggle,
} from "../cli/option-table.ts";
import { expectWords } from "../cli/words.ts";
import { KipctlError } from "../errors.ts";
import { kindOf } from "../get/kinds.ts";
import { currentNamespace, podPath } from "../pod/get-pod.ts";
import { readManifest } from "./manifest.ts";

export const deleteCommand: Command = {
  name: "delete",
  synopsis: "(KIND NAME... | -f FILE) [options]",
  summary: "delete pods, or cells with their machines",
  details: `KIND is pod, or cell, which the original called node. Deleting a cell ends its machine; its pod gets another one, unless it restarts
nothing (restartPolicy Never), when it fails. Does not wait for the end.`,
  options: [
    fileOption,
    {
      flag: "cascade",
      type: "string",
      help: "a pod has nothing that would stay",
      hasNoEffect: true,
    },
    namespaceOption,
    ...clusterOptions,
    toggle,
    helpOption,
  ],
  examples: [
    "delete pod web",
    "delete -f pods.yaml",
    "delete cell cell-0b1c2d3e-1111-2222-3333-444455556666",
  ],
  run: deleteObjects,
};

async function deleteObjects(context: CommandContext): Promise<void> {
  const { words, options } = context;
  if (options.text("filename") !== undefined) return await deleteManifest(context);
  expectWords(words.slice(0, 2), ["KIND", "NAME"], "delete");
  const [word = "", ...names] = words;
  const kind = kindOf(word);
  if (kind === "events" || kind === "metrics")
    throw new OptionError("OPTION_INVALID", `Cannot delete ${kind}: kip keeps none`, {
      remedy: "Pods and cells can be deleted",
    });
  for (const name of names)
    await (kind === "pods"
      ? removePod(context, name)
      : remove(context, "cell", paths.cells(name), name));
}

async function deleteManifest(context: CommandContext): Promise<void> {
  expectWords(context.words, [], "delete -f FILE");
  const pods = await readManifest(context.options);
  const current = await currentNamespace(context);
  for (const { name, namespace = current } of pods)
    await remove(context, "pod", paths.pods(namespace, name), name);
}

async function removePod(context: CommandContext, text: string): Promise<void> {
  const { namespace, name } = podPath(text, await currentNamespace(context));
  await remove(context, "pod", paths.pods(namespace, name), name);
}

async function remove(
  context: CommandContext,
  kind: "pod" | "cell",
  path: string,
  name: string,
): Promise<void> {
  const { client } = await context.cluster();
  try {
    await client.delete(path, { signal: context.signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
    throw new KipctlError(
      "OBJECT_NOT_FOUND",
      `Cannot delete ${kind} "${name}": there is no such ${kind}`,
      {
        remedy: `${context.program} get ${kind}s -A lists them`,
      },
    );
  }
  context.out(`${kind}/${name} deleted\n`);
}
