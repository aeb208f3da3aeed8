// For several test runs on one computer at the same time: each sets another KIP_E2E_NUMBER, from 0 (the default) to 9.
import assert from "node:assert/strict";

const number = Number(process.env["KIP_E2E_NUMBER"] ?? "0");
assert.ok(
  Number.isInteger(number) && number >= 0 && number <= 9,
  `KIP_E2E_NUMBER is ${process.env["KIP_E2E_NUMBER"]}: give a number from 0 to 9`,
);

/** Names, addresses and ports of this run's cluster. */
export const cluster = {
  name: number === 0 ? "kip-e2e" : `kip-e2e-${number}`,
  apiPort: 16_443 + number,
  registryPort: 15_000 + number,
  hostPort: 16_500 + number,
  networkRange: `198.19.${number * 16}.0/20`,
  /** The host's address in the machines' range. */
  hostAddress: `198.19.${number * 16}.1`,
  serviceRange: `10.${130 + number}.0.0/16`,
};
