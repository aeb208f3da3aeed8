import { stripVTControlCharacters } from "node:util";

/** Text for a terminal, in its lines: without what would control it or the order of its text, as much comes from machines and pods. */
export function plainText(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll("\r\n", "\n")
    .replaceAll(/[^\P{Cc}\n\t]|\p{Cf}/gu, "");
}
