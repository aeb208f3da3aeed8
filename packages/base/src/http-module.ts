import type http from "node:http";

/**
 * Node's `http` module, loaded by the first call. An import of it by name loads all that it exports, the client of
 * `fetch` included: 8 MB of memory.
 */
export function httpModule(): typeof http {
  return process.getBuiltinModule("node:http");
}
