import { decode, parseQuantity } from "@kip/base";

const { map, object, optional, string } = decode;

/** Resources of a mock node. */
export interface MockConfig {
  readonly cpu: string;
  readonly memory: string;
  readonly pods: string;
  readonly others: Readonly<Record<string, string>>;
  readonly providerID?: string | undefined;
}

const defaults = { cpu: "20", memory: "100Gi", pods: "20", others: {} } as const;

const file = map(
  object(
    {
      cpu: optional(string),
      memory: optional(string),
      pods: optional(string),
      others: optional(map(string)),
      providerID: optional(string),
    },
    { unknownKeys: "reject" },
  ),
);

/**
 * Reads a node's section of the mock provider's configuration file, `{"<node>": {"cpu": "2", ...}}`.
 *
 * @throws {DecodeError} `DECODE_FAILED`; `QUANTITY_INVALID`
 */
export function mockConfig(document: unknown, nodeName: string): MockConfig {
  const { cpu, memory, pods, others, providerID } = file(document, "")[nodeName] ?? {};
  const config: MockConfig = {
    cpu: cpu ?? defaults.cpu,
    memory: memory ?? defaults.memory,
    pods: pods ?? defaults.pods,
    others: others ?? defaults.others,
    providerID,
  };
  for (const quantity of [config.cpu, config.memory, config.pods, ...Object.values(config.others)])
    parseQuantity(quantity);
  return config;
}
