import { parse, YAMLParseError } from "yaml";

/**
 * Reads a YAML document that a person wrote. The parser's own words quote the document, which may hold passwords of
 * registries: the error names the line alone.
 *
 * @throws {SyntaxError}
 */
export function parseSettings(text: string): unknown {
  try {
    return parse(text, { logLevel: "error" });
  } catch (error) {
    const line = error instanceof YAMLParseError ? error.linePos?.[0].line : undefined;
    throw new SyntaxError(`it is not valid YAML${line === undefined ? "" : `, see line ${line}`}`);
  }
}
