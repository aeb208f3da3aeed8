// The table of keys, from which the documentation and the JSON Schema are generated.
export { jsonSchema, type JsonSchema } from "./keys/json-schema.ts";
export { keyRows, type KeyRow } from "./keys/key-rows.ts";
export { providerKeys } from "./keys/provider-keys.ts";
