export { instanceTypeRequest } from "./instance-type-request.ts";
