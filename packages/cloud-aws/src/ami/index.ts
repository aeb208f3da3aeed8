export type { AmiArchitecture } from "./ami-request.ts";
export { buildAmi, type BuildAmiOptions, type BuiltAmi } from "./build-ami.ts";
export type { BuiltSnapshot } from "./snapshots.ts";
