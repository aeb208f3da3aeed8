/** A column of a table. */
export interface Column<T> {
  /** Upper case, as kubectl has them. */
  readonly name: string;
  /** Only with `-o wide`. @default false */
  readonly isWide?: boolean | undefined;
  /** Figures stand at the right side. @default false */
  readonly isNumber?: boolean | undefined;
  /** The text of a row; nothing is printed as `<none>`. */
  text(row: T): string | undefined;
}

/** Rows below the names of their columns, three blanks apart, as kubectl prints them. */
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

/** On one line, and without what controls a terminal or the order of its text: much of it comes from pods, and from registries. */
export function printable(text: string): string {
  return text.replaceAll(/\s*[\r\n]+\s*/g, " ").replaceAll(/\p{Cc}|\p{Cf}/gu, "");
}
