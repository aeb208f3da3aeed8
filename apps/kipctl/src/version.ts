import { paths } from "@kip/k8s-client";
import type { Node } from "@kip/k8s-types";
import type { Command, CommandContext } from "./cli/command.ts";
import { clusterOptions, helpOption, toggle } from "./cli/option-table.ts";
import { expectWords } from "./cli/words.ts";
import { listKipNodes } from "./cluster/kip-nodes.ts";

export const versionText = "0.1.0";

export const versionCommand: Command = {
  name: "version",
  synopsis: "[options]",
  summary: "show the versions of kipctl, of each kip of the cluster, and of Kubernetes",
  options: [
    { flag: "client", type: "boolean", help: "of kipctl alone, without asking the cluster" },
    ...clusterOptions,
    toggle,
    helpOption,
  ],
  examples: ["version", "version --client"],
  run: version,
};

async function version(context: CommandContext): Promise<void> {
  expectWords(context.words, [], "version");
  const own = { kipctl: versionText };
  const found = context.options.isSet("client") ? own : { ...own, ...(await versions(context)) };
  context.out(`${JSON.stringify(found, undefined, 2)}\n`);
}

async function versions(context: CommandContext): Promise<object> {
  const { signal } = context;
  const { client } = await context.cluster();
  const [server, nodes] = await Promise.all([
    client.get<object>("/version", { signal }),
    listKipNodes(client, signal),
  ]);
  const read = nodes.map(async (name) => {
    const { status } = await client.get<Node>(paths.nodes(name), { signal });
    return [name, status?.nodeInfo?.kubeletVersion ?? "unknown"] as const;
  });
  return { kip: Object.fromEntries(await Promise.all(read)), server };
}
