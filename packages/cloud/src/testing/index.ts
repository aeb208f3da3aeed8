export type {
  CloudConformanceOptions,
  ConformanceGuest,
  GuestDisk,
  GuestView,
  OptionalPart,
} from "./conformance-options.ts";
export { describeCloudDriver } from "./describe-cloud-driver.ts";
