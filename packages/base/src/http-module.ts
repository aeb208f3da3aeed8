import type http from "node:http";

/**
 * Node's `http` module, loaded on first use. Importing it by name loads everything that it exports, including the client of
 * `fetch`, which takes 8 MB of memory.
 */
export function httpModule(): typeof http {
  return process.getBuiltinModule("node:http");
}
