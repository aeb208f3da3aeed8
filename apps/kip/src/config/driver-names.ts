/** The clouds of `provider.yaml` that this version has a driver for. */
export const driverNames: readonly string[] = ["local", "aws"];
