import type { Architecture, GpuModel } from "../offered-instance-type.ts";

const MiB = 2 ** 20;

/** A type as the built-in list has it, sizes being the machine's. */
export interface TypeRow {
  readonly name: string;
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly architecture: Architecture;
  /** Cores that it has all the time; undefined: all. */
  readonly baselineCpus: number | undefined;
  readonly localDiskBytes: number | undefined;
  readonly gpus: number;
  readonly gpuModel: GpuModel | undefined;
  /** Why only a pod that names it gets it. */
  readonly onlyIfNamed: string | undefined;
  /** GPUs can be added to it. */
  readonly takesGpus: boolean;
}

const reasons: Readonly<Record<string, string>> = {
  previous: "of a previous generation",
  metal: "bare metal, slow to start",
  confidential: "for confidential images",
};

/** One line of `types.tsv`, whose columns the README of the data names. */
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

/** `manufacturer:name:count:memoryMiB:fraction:acceleratorType`, the last two optional. */
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
