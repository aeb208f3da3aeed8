import { pause, type Clock } from "@kip/base";

/** Where to show progress, such as standard output. */
export interface ProgressOutput {
  readonly isTTY?: boolean | undefined;
  /** Width of the terminal, if it is one. */
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

/** Options of {@link startProgress}. */
export interface ProgressOptions {
  readonly output: ProgressOutput;
  readonly clock: Clock;
}

/** Shows how far concurrent tasks are. Disposing of it ends the display. */
export interface TaskProgress extends AsyncDisposable {
  /**
   * Runs one task.
   *
   * @param name a few words
   * @param work gets a function to report the current activity in one line
   */
  readonly run: <T>(
    name: string,
    work: (report: (text: string) => void) => Promise<T>,
  ) => Promise<T>;
}

/** Time between two redraws on a terminal, which also update the seconds of each task. Milliseconds. */
const redrawMs = 1000;
/** Time between two lines of a log, milliseconds. */
const logMs = 30_000;

/**
 * Shows the progress of tasks. On a terminal each task has one line, which is redrawn in place. It shows how long the task has
 * taken, what it is doing, and whether it is ready. Elsewhere, as in a log, a task gets a line with its first report and
 * another one when it is ready after that. Every 30 s a further line lists the tasks that are not ready, with their current
 * activity.
 */
export function startProgress(options: ProgressOptions): TaskProgress {
  const stop = new AbortController();
  const display =
    options.output.isTTY === true ? new TerminalDisplay(options) : new LogDisplay(options);
  const shown = show(display, options.clock, stop.signal);
  return {
    run: async (name, work) => {
      const task = display.begin(name);
      try {
        const result = await work((text) => display.report(task, oneLine(text)));
        display.end(task, "ready");
        return result;
      } catch (error) {
        display.end(task, "failed");
        throw error;
      }
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await shown;
    },
  };
}

async function show(display: Display, clock: Clock, signal: AbortSignal): Promise<void> {
  while (await pause(display.intervalMs, clock, signal)) display.repeat();
}

interface Task {
  readonly name: string;
  readonly beganAt: number;
  detail: string | undefined;
  /** Undefined while it runs. */
  end: { readonly how: "ready" | "failed"; readonly seconds: number } | undefined;
}

abstract class Display {
  abstract readonly intervalMs: number;
  protected readonly output: ProgressOutput;
  protected readonly tasks: Task[] = [];
  readonly #clock: Clock;
  readonly #beganAt: number;

  constructor({ output, clock }: ProgressOptions) {
    this.output = output;
    this.#clock = clock;
    this.#beganAt = clock.monotonic();
  }

  begin(name: string): Task {
    const task = { name, beganAt: this.#clock.monotonic(), detail: undefined, end: undefined };
    this.tasks.push(task);
    this.began();
    return task;
  }

  report(task: Task, detail: string): void {
    const isFirst = task.detail === undefined;
    task.detail = detail;
    this.reported(task, isFirst);
  }

  end(task: Task, how: "ready" | "failed"): void {
    task.end = { how, seconds: this.secondsSince(task.beganAt) };
    this.ended(task);
  }

  /** Called at intervals. Shows the changes since the last call. */
  abstract repeat(): void;
  protected abstract began(): void;
  protected abstract reported(task: Task, isFirst: boolean): void;
  protected abstract ended(task: Task): void;

  protected secondsSince(beganAt: number = this.#beganAt): number {
    return Math.round((this.#clock.monotonic() - beganAt) / 1000);
  }
}

/** A block of lines, one for each task. */
class TerminalDisplay extends Display {
  readonly intervalMs = redrawMs;
  #drawn = 0;

  repeat(): void {
    const width = Math.max(...this.tasks.map(({ name }) => name.length));
    const lines = this.tasks.map((task) => this.#line(task, width));
    const up = this.#drawn === 0 ? "" : `\u001B[${this.#drawn}A`;
    this.output.write(up + lines.map((line) => `\u001B[2K${line}\n`).join(""));
    this.#drawn = lines.length;
  }

  protected began(): void {
    this.repeat();
  }

  protected reported(): void {
    this.repeat();
  }

  protected ended(): void {
    this.repeat();
  }

  #line({ name, beganAt, detail, end }: Task, width: number): string {
    const seconds = `${end?.seconds ?? this.secondsSince(beganAt)} s`.padStart(6);
    const line = `${name.padEnd(width)} ${seconds}  ${end?.how ?? detail ?? "…"}`;
    // A longer line would wrap, and the next redraw would start at the wrong line.
    return line.slice(0, Math.max(20, (this.output.columns ?? 80) - 1));
  }
}

/** Prints lines one after the other. */
class LogDisplay extends Display {
  readonly intervalMs = logMs;

  repeat(): void {
    const left = this.tasks.filter(({ end, detail }) => !end && detail !== undefined);
    if (left.length === 0) return;
    const texts = left.map(({ name, detail }) => `${name} (${detail})`);
    this.#print(`Not ready yet: ${texts.join(", ")}`);
  }

  protected began(): void {}

  protected reported({ name, detail }: Task, isFirst: boolean): void {
    if (isFirst) this.#print(`${name}: ${detail}`);
  }

  protected ended({ name, detail, end }: Task): void {
    if (detail !== undefined) this.#print(`${name}: ${end?.how} after ${end?.seconds} s`);
  }

  #print(text: string): void {
    this.output.write(`[${String(this.secondsSince()).padStart(3)} s] ${text}\n`);
  }
}

/** Removes control characters, which a terminal would interpret. */
function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").replaceAll(/\p{Cc}/gu, "");
}
