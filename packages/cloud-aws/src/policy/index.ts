export { imageBuildPolicy } from "./image-build-policy.ts";
export { priceRefreshPolicy } from "./price-refresh-policy.ts";
export { iamPolicy, type Policy, type PolicyOptions } from "./policy.ts";
