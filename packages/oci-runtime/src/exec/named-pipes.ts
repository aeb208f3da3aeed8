import { closeSync, constants, mkdirSync, openSync, rmSync } from "node:fs";
import { Socket } from "node:net";
import path from "node:path";
import { runCommand } from "@kip/base";

/** One end of a pipe for us, the other for a child process. */
export interface ChildPipe {
  /** Our end. */
  readonly socket: Socket;
  /** Descriptor to hand to the child; close it with {@link ChildPipe.release} once the child has it. */
  readonly childFd: number;
  release(): void;
}

const batch = 12;

/**
 * Real pipes between us and child processes. Node connects children with sockets, which
 * programs cannot open again: `echo x > /dev/stderr` in a container would fail with ENXIO. Node
 * has no `pipe(2)`, so one `mkfifo` makes a batch of named pipes ahead of their use, and each is
 * unlinked as soon as both ends are open.
 */
export class NamedPipes {
  readonly #directory: string;
  #ready: string[] = [];
  #filling: Promise<void> | undefined;
  #made = 0;

  constructor(directory: string) {
    this.#directory = directory;
    rmSync(directory, { recursive: true, force: true });
    mkdirSync(directory, { recursive: true, mode: 0o700 });
  }

  /** Makes a batch if few are left; returns at once. */
  prepare(): void {
    if (this.#ready.length < 3) this.#fill().catch(() => {}); // the next caller gets the error
  }

  /** A pipe the child reads from. */
  async toChild(): Promise<ChildPipe> {
    return this.#open(await this.#take(), "child-reads");
  }

  /** A pipe the child writes to. */
  async fromChild(): Promise<ChildPipe> {
    return this.#open(await this.#take(), "child-writes");
  }

  async #take(): Promise<string> {
    for (;;) {
      const file = this.#ready.pop();
      if (file !== undefined) return file;
      await this.#fill();
    }
  }

  async #fill(): Promise<void> {
    this.#filling ??= this.#make().finally(() => {
      this.#filling = undefined;
    });
    await this.#filling;
  }

  async #make(): Promise<void> {
    const files = Array.from({ length: batch }, () =>
      path.join(this.#directory, String(this.#made++)),
    );
    await runCommand("/usr/bin/mkfifo", ["-m", "600", ...files]);
    this.#ready.push(...files);
  }

  #open(file: string, use: "child-reads" | "child-writes"): ChildPipe {
    // With both ends held open, neither of the next two calls waits for the other side.
    const both = openSync(file, constants.O_RDWR | constants.O_NONBLOCK);
    const [ours, theirs] =
      use === "child-reads"
        ? [constants.O_WRONLY, constants.O_RDONLY]
        : [constants.O_RDONLY, constants.O_WRONLY];
    const ourFd = openSync(file, ours | constants.O_NONBLOCK);
    // Blocking, as programs expect it; opened again, so the flag is the child's alone.
    const childFd = openSync(file, theirs);
    closeSync(both);
    rmSync(file);
    const socket = new Socket({
      fd: ourFd,
      readable: use === "child-writes",
      writable: use === "child-reads",
    });
    let isReleased = false;
    return {
      socket,
      childFd,
      release: () => {
        if (!isReleased) closeSync(childFd);
        isReleased = true;
      },
    };
  }
}
