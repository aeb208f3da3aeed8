import { isCodedError } from "@kip/base";

const codes: readonly (readonly [RegExp, number])[] = [
  [/^OPTION_|^IMAGE_(?:NAME_INVALID|PRIVATE)$/, 2],
  [/^IMAGE_NOT_FOUND$/, 3],
  [/^REGISTRY_UNAUTHORIZED$/, 4],
  [/^REGISTRY_/, 5],
  [/^IMAGE_STORE_|^ROOTFS_|^COMMAND_/, 7],
  [/^IMAGE_/, 6],
];

/**
 * What a program can tell from tosi's exit code: 1 anything else · 2 a wrong command line · 3 no such
 * image · 4 no access · 5 the registry cannot be reached or limits us, try again · 6 the image is
 * broken, unsafe or too large · 7 this machine: disk full, cannot mount or copy.
 */
export function exitCodeOf(error: unknown): number {
  if (!isCodedError(error)) return 1;
  return codes.find(([pattern]) => pattern.test(error.code))?.[1] ?? 1;
}
