export {
  openLocalAdversity,
  type AdversityReport,
  type LocalAdversity,
  type LocalAdversityOptions,
  type NamedMachine,
} from "./local-adversity.ts";
export { withAdversity, type WithAdversityOptions } from "./with-adversity.ts";
