export type {
  CloudConformanceOptions,
  ConformanceGuest,
  GuestDisk,
  GuestView,
  OptionalPart,
} from "./bench/conformance-options.ts";
export { describeCloudDriver } from "./describe-cloud-driver.ts";
