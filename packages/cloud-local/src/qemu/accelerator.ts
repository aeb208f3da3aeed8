import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import {
  CommandError,
  decode,
  errorText,
  hostArchitecture,
  type Logger,
  readJsonRecord,
  runCommand,
} from "@kip/base";
import { firstLine } from "../host/file-text.ts";
import { readBootId } from "../host/host-facts.ts";

/** How machines run: with hardware virtualisation, or by software emulation. */
export type Accelerator = "kvm" | "tcg";

/** Options of {@link chooseAccelerator}. */
export interface ChooseAcceleratorOptions {
  readonly qemu: string;
  /** Folder that stores the result until the next boot. */
  readonly stateDir: string;
  readonly logger: Logger;
  /** Time limit for the tiny guest, milliseconds. @default 2000 */
  readonly timeLimitMs?: number | undefined;
}

const answerDocument = decode.object({
  bootId: decode.string,
  accelerator: decode.oneOf("kvm", "tcg"),
  reason: decode.optional(decode.string),
});

/** The value that the tiny guest writes to the exit device. QEMU then exits with `(value << 1) | 1`. */
const exitValue = 0x31;
const exitStatus = (exitValue << 1) | 1;

/**
 * Finds out whether KVM works here by running a tiny guest. An accessible `/dev/kvm` is not enough: on some hosts no guest ever
 * executes its first instruction.
 */
export async function chooseAccelerator(options: ChooseAcceleratorOptions): Promise<Accelerator> {
  const bootId = await readBootId();
  const file = path.join(options.stateDir, "accelerator.json");
  const known = await readAnswer(file);
  if (known?.bootId === bootId) return known.accelerator;
  await mkdir(options.stateDir, { recursive: true, mode: 0o700 });
  const reason = await whyNotKvm(options);
  const accelerator = reason === undefined ? "kvm" : "tcg";
  const draft = `${file}.${process.pid}`;
  await writeFile(draft, JSON.stringify({ bootId, accelerator, reason }));
  await rename(draft, file);
  if (reason === undefined) options.logger.info("Machines run under KVM");
  else options.logger.info("Machines run in software emulation, which is slow", { reason });
  return accelerator;
}

/**
 * The configured accelerator, or the one that was detected once. Software emulation for architectures other than this
 * computer's.
 */
export class AcceleratorChoice {
  readonly #options: ChooseAcceleratorOptions & { readonly accelerator: Accelerator | "auto" };
  #found: Promise<Accelerator> | undefined;

  constructor(options: ChooseAcceleratorOptions & { readonly accelerator: Accelerator | "auto" }) {
    this.#options = options;
  }

  async get(architecture = hostArchitecture): Promise<Accelerator> {
    if (architecture !== hostArchitecture) return "tcg";
    const { accelerator } = this.#options;
    if (accelerator !== "auto") return accelerator;
    this.#found ??= chooseAccelerator(this.#options);
    try {
      return await this.#found;
    } catch (error) {
      this.#found = undefined; // retried next time
      throw error;
    }
  }
}

/** Runs the tiny guest. Undefined if it ran, otherwise the reason not to use KVM. */
async function whyNotKvm(options: ChooseAcceleratorOptions): Promise<string | undefined> {
  const limitMs = options.timeLimitMs ?? 2000;
  const folder = await mkdtemp(path.join(options.stateDir, "kvm-"));
  try {
    const disk = path.join(folder, "guest.img");
    await writeFile(disk, bootDisk());
    const quiet = ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"];
    await runCommand(
      options.qemu,
      [
        quiet,
        ["-machine", "q35,usb=off,graphics=off", "-accel", "kvm", "-cpu", "host", "-m", "16M"],
        ["-drive", `if=none,id=guest,format=raw,file=${disk}`],
        ["-device", "ide-hd,drive=guest,bootindex=0"],
        ["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"],
      ].flat(),
      { timeoutMs: limitMs },
    );
    return "the test guest was shut down before it ran";
  } catch (error) {
    if (CommandError.is(error) && error.exitCode === exitStatus) return undefined;
    return describeFailure(error, limitMs);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function describeFailure(error: unknown, limitMs: number): string {
  if (!CommandError.is(error)) return errorText(error);
  if (error.signal === "SIGKILL")
    return `/dev/kvm is there, but a test guest did not run within ${limitMs / 1000} s`;
  const message = firstLine(error.stderr);
  return message === "" ? errorText(error) : message;
}

/** A disk whose boot sector enters 32-bit protected mode, as every kernel must, and then writes to the exit device. */
function bootDisk(): Buffer {
  const sector = Buffer.alloc(2 ** 20); // the firmware refuses a disk with one sector
  const code = [
    [0xfa], //                               cli
    [0x31, 0xc0, 0x8e, 0xd8], //             xor ax, ax; mov ds, ax
    [0x0f, 0x01, 0x16, 0x40, 0x7c], //       lgdt [0x7c40]
    [0x0f, 0x20, 0xc0, 0x0c, 0x01], //       mov eax, cr0; or al, 1
    [0x0f, 0x22, 0xc0], //                   mov cr0, eax
    [0xea, 0x17, 0x7c, 0x08, 0x00], //       jmp 0x08:0x7c17
    [0xb0, exitValue, 0xe6, 0xf4], //        mov al, value; out 0xf4, al   (32-bit from here)
    [0xf4, 0xeb, 0xfd], //                   hlt; jmp to the hlt
  ].flat();
  sector.set(code, 0);
  sector.writeUInt16LE(15, 0x40); // limit of a table of two descriptors
  sector.writeUInt32LE(0x7c48, 0x42); // its address
  // 0x48: null descriptor; 0x50: code, base 0, limit 4 GiB, 32 bits
  sector.set([0xff, 0xff, 0x00, 0x00, 0x00, 0x9a, 0xcf, 0x00], 0x50);
  sector.writeUInt16LE(0xaa55, 510);
  return sector;
}

async function readAnswer(
  file: string,
): Promise<decode.Decoded<typeof answerDocument> | undefined> {
  return await readJsonRecord(file, answerDocument);
}
