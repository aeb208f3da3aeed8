import type { KeyNote } from "@kip/kip";
import { pathText } from "@kip/kip";

/** A note on a key of a file, with its line number. */
export interface PlacedNote {
  /** Path of the file, if it is one that the configuration names. @default the configuration itself */
  readonly file?: string | undefined;
  /** From 1. Undefined if the note is about the whole file. */
  readonly line: number | undefined;
  /** As in `cells.standbyCells[0].count`. Empty for the whole file. */
  readonly path: string;
  readonly message: string;
  readonly remedy: string | undefined;
}

/** Adds the line numbers, and sorts the notes by them. */
export function placeNotes(
  notes: readonly KeyNote[],
  lineOf: (path: KeyNote["path"]) => number | undefined,
): readonly PlacedNote[] {
  return notes
    .map(({ path, message, remedy }) => ({
      line: lineOf(path),
      path: pathText(path),
      message,
      remedy,
    }))
    .sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
}

/** As in `line 4: cells.nametg: there is no such key. Did you mean cells.nametag?` */
export function noteText(note: PlacedNote, { withLine = true } = {}): string {
  const { file = "", line, path, message, remedy } = note;
  const place = [withLine ? file : "", withLine && line !== undefined ? `line ${line}` : "", path];
  const sentence = [...place.filter((part) => part !== ""), message].join(": ");
  return remedy === undefined ? sentence : `${sentence}. ${remedy}`;
}
