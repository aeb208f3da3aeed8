import { readFile } from "node:fs/promises";
import {
  errorText,
  helpText,
  isCodedError,
  OptionError,
  parseOptions,
  uselessOptions,
  type Option,
  type OptionValues,
} from "@kip/base";
import {
  applyUserData,
  createAzureSource,
  createEc2Source,
  createGceSource,
  createNoCloudSource,
  defaultWorkspace,
  findSource,
  ImdsClient,
  isApplied,
  maxUserDataBytes,
  MetadataHttp,
  noteApplied,
  parseUserData,
  type DataSource,
  type InstanceData,
} from "@kip/cloud-init";

const usage = `Usage: itzo cloud-init SOURCE... [options]

Applies the user data of this machine: files, host name, users, SSH keys and commands. All sources that are named are asked at
once, and the first that has data for this machine is used. What was applied for an instance is not applied again.

Exit code: 0 all was applied, or had been before; 1 something failed; what could be done was.

Example: itzo cloud-init --from-ec2-metadata=http://169.254.169.254 --from-waagent=/var/lib/waagent`;

const options: readonly Option[] = [
  { flag: "from-file", type: "string", help: "a file with user data; applied each time" },
  { flag: "from-url", type: "string", help: "an address of user data; applied each time" },
  {
    flag: "from-ec2-metadata",
    type: "string",
    help: "EC2's metadata service, such as http://169.254.169.254",
  },
  {
    flag: "from-metadata-service",
    type: "string",
    help: "old name of --from-ec2-metadata",
  },
  {
    flag: "from-gce-metadata",
    type: "string",
    help: "GCE's metadata server, such as http://metadata.google.internal",
  },
  { flag: "from-waagent", type: "string", help: "folder of Azure's agent, /var/lib/waagent" },
  { flag: "from-nocloud", type: "string", help: "a mounted NoCloud seed" },
  {
    flag: "workspace",
    type: "string",
    fallback: defaultWorkspace,
    help: "folder for the record of what was applied, and for what is run",
  },
  { flag: "validate", type: "boolean", help: "read the user data, apply nothing" },
  { flag: "ignore-failure", type: "boolean", help: "exit code 0 also if something failed" },
  { flag: "version", type: "boolean", help: "print the version" },
  { flag: "help", type: "boolean", help: "show this text" },
  {
    flag: "ssh-key-name",
    type: "string",
    hasNoEffect: true,
    help: "keys are added by what they are, not under a name",
  },
];

/** Output of the command. */
export interface CloudInitStreams {
  readonly version: string;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** Prefix of every path that user data names, for tests. @default "/" */
  readonly root?: string | undefined;
}

/** Runs `itzo cloud-init`. @returns the exit code. Never throws */
export async function runCloudInit(
  args: readonly string[],
  streams: CloudInitStreams,
): Promise<number> {
  let failureCode = 1;
  try {
    const values = parseOptions(options, args, {});
    if (values.isSet("ignore-failure")) failureCode = 0;
    for (const note of uselessOptions(options, values)) streams.err(`${note}\n`);
    if (values.isSet("help")) streams.out(helpText(usage, options));
    else if (values.isSet("version")) streams.out(`itzo ${streams.version}\n`);
    else if (!(await applySource(values, streams))) return failureCode;
    return 0;
  } catch (error) {
    const remedy = isCodedError(error) ? error.remedy : undefined;
    streams.err(`${errorText(error)}${remedy === undefined ? "" : `\n${remedy}`}\n`);
    return failureCode;
  }
}

/** @returns whether everything succeeded */
async function applySource(values: OptionValues, streams: CloudInitStreams): Promise<boolean> {
  const sources = sourcesOf(values);
  if (sources.length === 0)
    throw new OptionError("OPTION_MISSING", "Cannot apply user data: no source is named", {
      remedy: "Give --from-file, --from-url or another of the flags in --help",
    });
  const { signal } = new AbortController();
  const [first] = sources;
  // Do not wait for a file: if it is missing, report that at once.
  const isFile = values.text("from-file") !== undefined;
  const source =
    first && sources.length === 1 && isFile ? first : await findSource(sources, { signal });
  const data = await source.read(signal);
  const config = await parseUserData(data.userData, { addresses: data.addresses });
  for (const warning of config.warnings) streams.err(`warning: ${warning}\n`);
  if (values.isSet("validate")) {
    streams.out(`The user data from ${source.name} can be applied\n`);
    return true;
  }
  const { root } = streams;
  const workspace = values.required("workspace");
  const { instanceId } = data;
  if (instanceId !== "" && isApplied(instanceId, { root, workspace })) {
    streams.out(`The user data of instance "${instanceId}" was applied before\n`);
    return true;
  }
  const hostname = config.hostname ?? data.localHostname;
  const { errors } = await applyUserData({ ...config, hostname }, { ...data, root, workspace });
  if (instanceId !== "") noteApplied(instanceId, { root, workspace });
  for (const error of errors) streams.err(`${error.message}\n`);
  streams.out(`Applied the user data from ${source.name}, with ${errors.length} failures\n`);
  return errors.length === 0;
}

function sourcesOf(values: OptionValues): readonly DataSource[] {
  const make: Readonly<Record<string, (value: string) => DataSource>> = {
    "from-file": (file) => userDataSource(file, async () => await readFile(file)),
    "from-url": urlSource,
    "from-ec2-metadata": (baseUrl) => createEc2Source(new ImdsClient({ baseUrl })),
    "from-metadata-service": (baseUrl) => createEc2Source(new ImdsClient({ baseUrl })),
    "from-gce-metadata": (baseUrl) => createGceSource({ baseUrl }),
    "from-waagent": (directory) => createAzureSource({ directory }),
    "from-nocloud": createNoCloudSource,
  };
  return Object.entries(make).flatMap(([flag, create]) => {
    const value = values.text(flag);
    return value === undefined ? [] : [create(value)];
  });
}

/** A source with user data only. It has no instance ID, so it is not recorded as applied. */
function userDataSource(
  name: string,
  read: (signal: AbortSignal) => Promise<Uint8Array>,
): DataSource {
  let found: Promise<Uint8Array> | undefined;
  return {
    name,
    isAvailable: async (signal) => {
      found = read(signal);
      return await found.then(
        () => true,
        () => false,
      );
    },
    read: async (signal): Promise<InstanceData> => ({
      instanceId: "",
      userData: await (found ?? read(signal)),
    }),
  };
}

function urlSource(url: string): DataSource {
  const { origin, pathname, search } = new URL(url);
  const baseUrl = origin === "null" ? url : origin;
  const http = new MetadataHttp({ baseUrl, attempts: 1 });
  return userDataSource(url, async (signal) => {
    const path = pathname + search;
    const answer = await http.send({ path, maxBytes: maxUserDataBytes, signal });
    if (answer.status === 200) return answer.body;
    throw new Error(`the status of "${url}" is ${answer.status}`);
  });
}
