// The table of keys, for the documentation and the JSON Schema that are made from it.
export { jsonSchema, type JsonSchema } from "./keys/json-schema.ts";
export { keyRows, type KeyRow } from "./keys/key-rows.ts";
export { providerKeys } from "./keys/provider-keys.ts";
