export {
  openLocalFaults,
  type FaultReport,
  type LocalFaults,
  type LocalFaultsOptions,
  type NamedMachine,
} from "./local-faults.ts";
export { withFaultInjection, type FaultInjectionOptions } from "./with-fault-injection.ts";
