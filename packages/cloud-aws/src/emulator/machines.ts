import { CloudError } from "@kip/cloud";
import { errorAnswer, type Answer } from "./client-tokens.ts";

/** What a launch needs from the machine of an instance. */
export interface MachineLaunch {
  readonly imageId: string;
  readonly instanceType: string;
  readonly isSpot: boolean;
  /** Tags of the instance. */
  readonly tags: Readonly<Record<string, string>>;
  readonly rootDiskBytes: number;
  readonly userData: Uint8Array;
  /** How many hops a response of the metadata service may make, 1 or more. */
  readonly hopLimit: number;
}

/** The machine that runs as an instance. */
export interface Machine {
  /** The interface's own address. */
  readonly managementIp: string;
  /** The interface's second address. */
  readonly podIp: string;
  /** Called once with the ID of its instance. */
  named(instanceId: string): void;
  /** Called when its instance gets these further tags. */
  tagged(tags: Readonly<Record<string, string>>): Promise<void>;
  /** Its console output so far. */
  console(): Promise<string>;
  /** Ends it. Resolves when it is gone. */
  end(): Promise<void>;
}

/** Starts the machines of an {@link Ec2Proxy}. */
export interface Machines {
  /**
   * @param onEnd called if the machine ends without {@link Machine.end}: by itself, or because it was taken back
   * @throws {CloudError} `CLOUD_NO_CAPACITY` and others of the closed set
   */
  start(launch: MachineLaunch, onEnd: (how: "itself" | "taken") => void): Promise<Machine>;
}

const codes: Partial<Record<CloudError["code"], string>> = {
  CLOUD_NO_CAPACITY: "InsufficientInstanceCapacity",
  CLOUD_QUOTA: "VcpuLimitExceeded",
  CLOUD_INVALID_REQUEST: "Unsupported",
};

/** EC2's response if a machine cannot be started. */
export function refusalOf(error: unknown): Answer {
  const message = error instanceof Error ? error.message : String(error);
  const code = CloudError.is(error) ? codes[error.code] : undefined;
  return code === undefined
    ? errorAnswer("InternalError", message, 500)
    : errorAnswer(code, message);
}

/** Reads what the machine needs from the parameters of RunInstances. */
export function machineLaunchOf(parameters: URLSearchParams): MachineLaunch {
  return {
    imageId: parameters.get("ImageId") ?? "",
    instanceType: parameters.get("InstanceType") ?? "",
    isSpot: parameters.get("InstanceMarketOptions.MarketType") === "spot",
    tags: tagsOf(parameters, "instance"),
    rootDiskBytes: Number(parameters.get("BlockDeviceMapping.1.Ebs.VolumeSize") ?? 8) * 2 ** 30,
    userData: Buffer.from(parameters.get("UserData") ?? "", "base64"),
    hopLimit: Number(parameters.get("MetadataOptions.HttpPutResponseHopLimit") ?? 1),
  };
}

/** The tags that a launch gives to one kind of resource. */
export function tagsOf(
  parameters: URLSearchParams,
  kind: "image" | "instance" | "network-interface",
): Readonly<Record<string, string>> {
  const list = [...parameters].find(
    ([key, value]) => /^TagSpecification\.\d+\.ResourceType$/.test(key) && value === kind,
  );
  return list ? tagList(parameters, list[0].replace(/ResourceType$/, "Tag.")) : {};
}

/** Reads the tags whose parameters begin with this prefix: `Tag.` for those of CreateTags. */
export function tagList(
  parameters: URLSearchParams,
  prefix: string,
): Readonly<Record<string, string>> {
  const keys = [...parameters].filter(([key]) => key.startsWith(prefix) && key.endsWith(".Key"));
  return Object.fromEntries(
    keys.map(([key, name]) => [name, parameters.get(key.replace(/Key$/, "Value")) ?? ""]),
  );
}
