import { closeSync, constants, mkdirSync, openSync, rmSync } from "node:fs";
import { Socket } from "node:net";
import path from "node:path";
import { runCommand } from "@kip/base";

/** A pipe with one end for this process and the other for a child process. */
export interface ChildPipe {
  /** This process's end. */
  readonly socket: Socket;
  /** Descriptor for the child. Close it with {@link ChildPipe.release} once the child has it. */
  readonly childFd: number;
  release(): void;
}

const batch = 12;

/**
 * Real pipes to child processes. Node connects children with sockets, which programs cannot reopen: in a container,
 * `echo x > /dev/stderr` would fail with ENXIO. Node has no `pipe(2)`, so one `mkfifo` creates several named pipes in advance.
 * Each is unlinked once both ends are open.
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

  /** Creates more pipes if few are left. Returns at once. */
  prepare(): void {
    if (this.#ready.length < 3) this.#fill().catch(() => {}); // the next caller gets the error
  }

  /** A pipe for the child to read from. */
  async toChild(): Promise<ChildPipe> {
    return this.#open(await this.#take(), "child-reads");
  }

  /** A pipe for the child to write to. */
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
    // While both ends are held open, the next two calls do not block.
    const both = openSync(file, constants.O_RDWR | constants.O_NONBLOCK);
    const [ours, theirs] =
      use === "child-reads"
        ? [constants.O_WRONLY, constants.O_RDONLY]
        : [constants.O_RDONLY, constants.O_WRONLY];
    const ourFd = openSync(file, ours | constants.O_NONBLOCK);
    // Blocking, as programs expect. It is opened separately, so the flag only applies to the child's end.
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
