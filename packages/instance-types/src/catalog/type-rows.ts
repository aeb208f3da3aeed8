import type { Architecture, GpuModel } from "../offered-instance-type.ts";

const MiB = 2 ** 20;

/** A type in the built-in list. Sizes are those of the machine. */
export interface TypeRow {
  readonly name: string;
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly architecture: Architecture;
  /** Cores that are available all the time. Undefined: all cores. */
  readonly baselineCpus: number | undefined;
  readonly localDiskBytes: number | undefined;
  readonly gpus: number;
  readonly gpuModel: GpuModel | undefined;
  /** Why it is only chosen for pods that name it. */
  readonly onlyIfNamed: string | undefined;
  /** Whether GPUs can be attached. */
  readonly takesGpus: boolean;
}

const reasons: Readonly<Record<string, string>> = {
  previous: "of a previous generation",
  metal: "bare metal, slow to start",
  confidential: "for confidential images",
};

/** Parses a line of `types.tsv`. The README of the data describes its columns. */
export function readTypeRow(line: string, prefix: string): TypeRow {
  const [name = "", cpus, memoryMiB, arch, baseline = "", disk = "", gpus = "", marks = ""] =
    line.split("\t");
  const marked = marks === "" ? [] : marks.split(",");
  return {
    name: prefix + name,
    cpus: Number(cpus),
    memoryBytes: Number(memoryMiB) * MiB,
    architecture: arch === "arm64" ? "arm64" : "amd64",
    baselineCpus: baseline === "" ? undefined : Number(baseline),
    localDiskBytes: disk === "" ? undefined : Number(disk) * 1e9,
    ...readGpus(gpus),
    onlyIfNamed: reasonOf(marked),
    takesGpus: marked.includes("attach"),
  };
}

function reasonOf(marks: readonly string[]): string | undefined {
  if (marks.length === 0) return undefined;
  for (const mark of marks) {
    const reason = reasons[mark];
    if (reason !== undefined) return reason;
    if (mark.startsWith("accelerator=")) return "a machine with accelerators";
  }
  return undefined;
}

/** Parses `manufacturer:name:count:memoryMiB:fraction:acceleratorType`. The last two parts are optional. */
function readGpus(text: string): Pick<TypeRow, "gpus" | "gpuModel"> {
  if (text === "") return { gpus: 0, gpuModel: undefined };
  const [manufacturer, name = "", count, memoryMiB, fraction = "", acceleratorType] =
    text.split(":");
  return {
    gpus: Number(count),
    gpuModel: {
      manufacturer: manufacturer === "amd" ? "amd" : "nvidia",
      name,
      memoryBytes: Number(memoryMiB) * MiB,
      acceleratorType,
      isSlice: fraction !== "",
    },
  };
}
