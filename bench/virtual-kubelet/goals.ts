import { rounded, table } from "../measure.ts";

/** Figures with their goals. Prints a JSON line for each at once, and a table at the end. */
export class Goals {
  readonly #rows: string[][] = [["figure", "value", "goal", ""]];

  /** @param most the goal: the maximum value, if there is one */
  figure(name: string, value: number, unit: string, most?: number): void {
    const shown = rounded(value);
    const verdict = most === undefined ? "" : shown <= most ? "met" : "missed";
    console.log(
      JSON.stringify({ figure: name, value: shown, unit, ...(most !== undefined && { most }) }),
    );
    const goal = most === undefined ? "" : `≤ ${most} ${unit}`.trim();
    this.#rows.push([name, `${shown} ${unit}`.trim(), goal, verdict]);
  }

  print(): void {
    console.log();
    table(this.#rows);
  }
}
