export { describeCloudDriver, type CloudConformanceOptions } from "./conformance.ts";
