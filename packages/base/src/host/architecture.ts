/** Processor architectures of Kip's machines and images, as Debian and Kubernetes name them. */
export type Architecture = "amd64" | "arm64";

/** The architecture of this computer. */
export const hostArchitecture: Architecture = process.arch === "arm64" ? "arm64" : "amd64";
