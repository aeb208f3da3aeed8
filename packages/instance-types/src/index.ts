export { InstanceTypeError, type InstanceTypeErrorCode } from "./errors.ts";
export {
  selectInstanceType,
  type OfferedInstanceType,
  type RequestedResources,
} from "./select-instance-type.ts";
