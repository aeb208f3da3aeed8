export { delegatedAccess } from "./access/delegated-access.ts";
export type {
  KubeletApiOptions,
  KubeletHandlers,
  KubeletTls,
  RunningKubeletApi,
} from "./options.ts";
export { startKubeletApi } from "./server.ts";
