import type { Key, KeyFacts } from "./key.ts";

/** A JSON Schema of draft 7, which editors support best. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** The key and everything below it as a JSON Schema: names, types, ranges and meanings, without rules between keys. */
export function jsonSchema(key: Key): JsonSchema {
  return { ...facts(key), ...shape(key) };
}

function shape(key: Key): JsonSchema {
  switch (key.kind) {
    case "value":
      return key.type.schema;
    case "list":
      return { type: "array", items: jsonSchema(key.of) };
    case "map":
      return { type: "object", additionalProperties: jsonSchema(key.of) };
    case "section":
      return {
        type: "object",
        properties: Object.fromEntries(
          Object.entries(key.keys).map(([name, each]) => [name, jsonSchema(each)]),
        ),
        ...(key.required && { required: key.required }),
        ...(key.isChoice === true && { minProperties: 1, maxProperties: 1 }),
        additionalProperties: key.others ? jsonSchema(key.others) : false,
      };
    default:
      return key satisfies never;
  }
}

function facts({ meaning, fallback, replacedBy }: KeyFacts): JsonSchema {
  const sentences = [
    meaning === undefined || meaning === "" ? undefined : plain(meaning),
    fallback === undefined ? undefined : `Default: ${plain(fallback)}`,
    replacedBy === undefined ? undefined : `No effect: ${plain(replacedBy)}`,
  ].filter((sentence) => sentence !== undefined);
  return {
    ...(sentences.length > 0 && { description: `${sentences.join(". ")}.` }),
    ...(replacedBy !== undefined && { deprecated: true }),
  };
}

/** Removes links and code marks from Markdown. */
function plain(markdown: string): string {
  return markdown.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll("`", "");
}
