export { cellConstraints } from "../annotations/read-annotations.ts";
export { instanceTypeRequest } from "./instance-type-request.ts";
export { requestedDiskBytes } from "./pod-requests.ts";
export { checkPrice } from "./price-limit.ts";
export { selectByLaunchType } from "./select-by-launch-type.ts";
