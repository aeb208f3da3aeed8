import { Fifo } from "@kip/base";

/** How many tasks may run in one turn of the event loop. A plan and the begin of its steps take about a millisecond. */
const maxPerTurn = 32;

const tasks = new Fifo<() => void>();
let scheduled = 0;

/**
 * Runs a task in a later turn of the event loop, in the order of the calls. All reconcilers of the process share the turns:
 * thousands of them may have a change at once, and heartbeats and answers must not wait until each has made its plan.
 */
export function inLaterTurn(task: () => void): void {
  tasks.push(task);
  schedule();
}

function schedule(): void {
  if (scheduled === maxPerTurn || scheduled === tasks.length) return;
  scheduled++;
  setImmediate(() => {
    scheduled--;
    const task = tasks.shift();
    schedule();
    task?.();
  });
}
