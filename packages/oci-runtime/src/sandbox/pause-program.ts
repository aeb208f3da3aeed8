import { RuntimeError } from "../errors.ts";

/** `for (;;) pause()` in machine code, and ELF's number of the machine, by Node's name of the machine. */
const machines: Readonly<
  Record<string, { readonly elf: number; readonly code: readonly string[] }>
> = {
  // mov eax, 34 (pause); syscall; jmp to the start
  x64: { elf: 62, code: ["b822000000", "0f05", "ebf7"] },
  // mov x8, 73 (ppoll); mov x0 to x4, 0; svc 0; b to the start
  arm64: {
    elf: 183,
    code: ["280980d2", "000080d2010080d2020080d2030080d2040080d2", "010000d4", "f9ffff17"],
  },
};

const fileHeaderBytes = 64;
const programHeaderBytes = 56;
const address = 0x40_0000;

/**
 * A program that does nothing until it is killed: a static ELF executable of less than 200 bytes. It needs no library or other
 * file, so it runs in an empty root.
 *
 * @param machine as named by `process.arch`
 * @throws {RuntimeError} `POD_SANDBOX_FAILED` for a machine other than x64 and arm64
 * @see https://man7.org/linux/man-pages/man5/elf.5.html
 */
export function pauseProgram(machine: string): Buffer {
  const found = machines[machine];
  if (!found) {
    const message = `Cannot share a process namespace: no program to hold it on ${machine}`;
    throw new RuntimeError("POD_SANDBOX_FAILED", message);
  }
  const code = Buffer.from(found.code.join(""), "hex");
  const codeOffset = fileHeaderBytes + programHeaderBytes;
  const size = BigInt(codeOffset + code.length);
  const file = Buffer.alloc(codeOffset);
  file.write("7f454c46020101", "hex"); // magic number, 64 bits, little endian, version 1
  file.writeUInt16LE(2, 16); // executable
  file.writeUInt16LE(found.elf, 18);
  file.writeUInt32LE(1, 20); // version
  file.writeBigUInt64LE(BigInt(address + codeOffset), 24); // entry
  file.writeBigUInt64LE(BigInt(fileHeaderBytes), 32); // offset of the program header
  file.writeUInt16LE(fileHeaderBytes, 52);
  file.writeUInt16LE(programHeaderBytes, 54);
  file.writeUInt16LE(1, 56); // one program header: the whole file, readable and executable
  file.writeUInt32LE(1, 64); // loaded
  file.writeUInt32LE(5, 68); // read and execute
  file.writeBigUInt64LE(BigInt(address), 80);
  file.writeBigUInt64LE(BigInt(address), 88);
  file.writeBigUInt64LE(size, 96);
  file.writeBigUInt64LE(size, 104);
  file.writeBigUInt64LE(0x1_0000n, 112); // the largest page size of arm64
  return Buffer.concat([file, code]);
}
