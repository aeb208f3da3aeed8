export { growth } from "./growth.ts";
