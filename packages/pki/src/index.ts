export {
  CertificateAuthority,
  type CreateAuthorityOptions,
  type LoadAuthorityOptions,
} from "./certificate-authority.ts";
export { PkiError, type PkiErrorCode } from "./errors.ts";
export { remainingMs } from "./expiry.ts";
export type { CertificateUsage, IssueOptions } from "./issue-options.ts";
export type { KeyPair } from "./key-pair.ts";
export { createSelfSigned } from "./self-signed.ts";
export { createTokenKey, type TokenKey } from "./token-key.ts";
export { createSigningRequest, type SigningRequest } from "./signing-request.ts";
