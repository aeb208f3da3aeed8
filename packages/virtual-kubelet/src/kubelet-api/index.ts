export type {
  KubeletAction,
  KubeletAuthenticate,
  KubeletAuthorize,
  KubeletUser,
} from "./access/user.ts";
export { delegatedAccess, type DelegatedAccessOptions } from "./access/delegated-access.ts";
export {
  defaultKubeletLimits,
  type KubeletApiOptions,
  type KubeletHandlers,
  type KubeletLimits,
  type KubeletTls,
  type RunningKubeletApi,
} from "./options.ts";
export { startKubeletApi } from "./server.ts";
