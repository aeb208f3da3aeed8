// A reporter of node:test: one line for each test and suite that has ended, for a reader on another machine. Bundled.
import type { TestEvent } from "node:test/reporters";
import { outcomeOf } from "../../tools/outcomes.ts";

/** What each line begins with, as tests write to the same stream; an outcome as JSON follows. */
const mark = "outcome: ";

/** Node takes a reporter from a module's default export. */
export default async function* testLines(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of source) {
    const outcome = outcomeOf(event);
    if (outcome) yield `${mark}${JSON.stringify(outcome)}\n`;
  }
}
