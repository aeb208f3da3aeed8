/** CPU in thousandths, as `kubectl top` prints it: `12m`. More than zero, but less than one thousandth, is `1m`. */
export function cpuText(nanoCores: number | undefined): string | undefined {
  return nanoCores === undefined ? undefined : `${Math.ceil(nanoCores / 1e6)}m`;
}

/** Bytes in mebibytes, rounded up: `64Mi`. */
export function mebibytesText(bytes: number | undefined): string | undefined {
  return bytes === undefined ? undefined : `${Math.ceil(bytes / 2 ** 20)}Mi`;
}
