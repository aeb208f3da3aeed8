/** A column of a table. */
export interface Column<T> {
  /** Upper case, as in kubectl. */
  readonly name: string;
  /** Only shown with `-o wide`. @default false */
  readonly isWide?: boolean | undefined;
  /** Aligned to the right. @default false */
  readonly isNumber?: boolean | undefined;
  /** The text for a row. Undefined is printed as `<none>`. */
  text(row: T): string | undefined;
}

/** Formats rows below their column names, separated by three spaces, as kubectl does. */
export function tableText<T>(
  columns: readonly Column<T>[],
  rows: readonly T[],
  options: { readonly isWide?: boolean } = {},
): string {
  const shown = columns.filter(({ isWide }) => isWide !== true || options.isWide === true);
  const cells = rows.map((row) => shown.map((column) => cellText(column.text(row))));
  const all = [shown.map(({ name }) => name), ...cells];
  const widths = shown.map((_, at) => Math.max(...all.map((row) => row[at]?.length ?? 0)));
  const lines = all.map((row) =>
    row
      .map((text, at) =>
        shown[at]?.isNumber === true
          ? text.padStart(widths[at] ?? 0)
          : text.padEnd(widths[at] ?? 0),
      )
      .join("   ")
      .trimEnd(),
  );
  return `${lines.join("\n")}\n`;
}

function cellText(text: string | undefined): string {
  return text === undefined || text === "" ? "<none>" : printable(text);
}

/**
 * Text on one line, without control characters and those that change the text's order. Much of it comes from pods and
 * registries.
 */
export function printable(text: string): string {
  return text.replaceAll(/\s*[\r\n]+\s*/g, " ").replaceAll(/\p{Cc}|\p{Cf}/gu, "");
}
