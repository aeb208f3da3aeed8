export {
  selectInstanceType,
  type OfferedInstanceType,
  type RequestedResources,
} from "./select-instance-type.ts";
