import { setImmediate as nextTurn } from "node:timers/promises";
import { Fifo } from "@kip/base";

/** How long the tasks may block the event loop in one turn, milliseconds. One task that takes longer is not interrupted. */
const turnMs = 10;

const tasks = new Fifo<() => void>();
let isRunning = false;

/**
 * Runs a task in a later turn of the event loop, in the order of the calls. All reconcilers of the process share the time of a
 * turn: thousands of them may have a change at once, and heartbeats and answers must not wait until each has made its plan.
 *
 * @param task must not throw
 */
export function inLaterTurn(task: () => void): void {
  tasks.push(task);
  if (!isRunning) void runTasks();
}

async function runTasks(): Promise<void> {
  isRunning = true;
  while (tasks.length > 0) {
    await nextTurn();
    const endAt = performance.now() + turnMs;
    // Those that are added meanwhile belong to the next turn.
    for (let left = tasks.length; left > 0 && performance.now() < endAt; left--) {
      tasks.shift()?.();
      await Promise.resolve(); // what the task has started is part of its time
    }
  }
  isRunning = false;
}
