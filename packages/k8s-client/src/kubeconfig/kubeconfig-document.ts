import { decode, type Decoded } from "@kip/base";

const { boolean, list, object, optional, string, unknownValue } = decode;

/** The parts of a kubeconfig by name. Only the parts of the chosen context are decoded. */
export const decodeDocument = object({
  "current-context": optional(string),
  clusters: optional(list(object({ name: string, cluster: optional(unknownValue) }))),
  contexts: optional(list(object({ name: string, context: optional(unknownValue) }))),
  users: optional(list(object({ name: string, user: optional(unknownValue) }))),
});

export const decodeContext = object({
  cluster: string,
  user: optional(string),
  namespace: optional(string),
});

/** @see https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/ */
export const decodeCluster = object({
  server: optional(string),
  "tls-server-name": optional(string),
  "insecure-skip-tls-verify": optional(boolean),
  "certificate-authority": optional(string),
  "certificate-authority-data": optional(string),
  "proxy-url": optional(string),
  "disable-compression": optional(boolean),
  extensions: optional(list(object({ name: optional(string), extension: optional(unknownValue) }))),
});

export type KubeconfigCluster = Decoded<typeof decodeCluster>;

export const decodeUser = object({
  "client-certificate": optional(string),
  "client-certificate-data": optional(string),
  "client-key": optional(string),
  "client-key-data": optional(string),
  token: optional(string),
  tokenFile: optional(string),
  username: optional(string),
  password: optional(string),
  exec: optional(unknownValue),
  "auth-provider": optional(object({ name: optional(string), config: optional(unknownValue) })),
});

export type KubeconfigUser = Decoded<typeof decodeUser>;
