import { stripVTControlCharacters } from "node:util";

/**
 * Text for a terminal, with its line breaks. Removes control characters and those that change the text's order, because text
 * may come from machines and pods.
 */
export function plainText(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll("\r\n", "\n")
    .replaceAll(/[^\P{Cc}\n\t]|\p{Cf}/gu, "");
}
