// A node:test reporter that prints one line for each test and suite that has ended, for a reader on another machine. It is
// bundled.
import type { TestEvent } from "node:test/reporters";
import { outcomeOf } from "../../tools/outcomes.ts";

/** Start of each line, because tests write to the same stream. The outcome follows as JSON. */
const mark = "outcome: ";

/** Node loads a reporter from a module's default export. */
export default async function* testLines(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of source) {
    const outcome = outcomeOf(event);
    if (outcome) yield `${mark}${JSON.stringify(outcome)}\n`;
  }
}
