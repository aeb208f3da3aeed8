/** The codes that a package's `errors.ts` declares, and the rest of its text. */
export interface DeclaredCodes {
  readonly codes: readonly string[];
  readonly rest: string;
}

/** Matches `export type XErrorCode = "A" | "B";`, and lists such as `export const xErrorCodes = ["A", "B"] as const;`. */
const declaration = /export (?:type \w+ErrorCode|const \w+ErrorCodes) =([^;]*);/g;

/** Finds the codes in the text of an `errors.ts`. */
export function codesOfUnions(text: string): DeclaredCodes {
  const plain = text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, "");
  const codes = [...plain.matchAll(declaration)].flatMap(([, union = ""]) =>
    [...union.matchAll(/"([A-Z][A-Z0-9_]*)"/g)].map(([, code = ""]) => code),
  );
  return { codes, rest: plain.replaceAll(declaration, "") };
}
