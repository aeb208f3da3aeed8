export { MemoryProvider, type SeenCall } from "./memory-provider.ts";
