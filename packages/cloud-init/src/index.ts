export { applyUserData, type ApplyResult, type ApplyUserDataOptions } from "./apply-user-data.ts";
export { readNoCloudSeed, type NoCloudSeed } from "./no-cloud.ts";
export { maxUserDataBytes, parseUserData, type CloudConfig, type WriteFile } from "./user-data.ts";
export {
  maxPersonalityBytes,
  orderLine,
  parseOrder,
  personalityPort,
  personalityWords,
  templateWord,
  type Errand,
  type Order,
  type Personality,
} from "./personality.ts";
