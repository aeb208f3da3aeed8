/**
 * Node's `http` module. An import of it by name loads all that it exports, the client of `fetch`
 * included: 8 MB of memory.
 */
export const httpModule = process.getBuiltinModule("node:http");
