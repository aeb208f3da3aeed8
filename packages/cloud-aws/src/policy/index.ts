export { iamPolicy, type Policy, type PolicyOptions } from "./policy.ts";
