export { seededRandom } from "./seeded-random.ts";
export {
  createSimulatedCloud,
  type SimulatedCloud,
  type SimulatedHardware,
} from "./simulated-cloud.ts";
export type {
  SimulatedCloudOptions,
  SimulatedMachine,
  TimeRange,
} from "./simulated-cloud-options.ts";
export type { SimulatedDisk } from "./simulated-volumes.ts";
