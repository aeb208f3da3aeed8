import { Secret, type Clock } from "@kip/base";
import { givesRegistryLogIns, type CloudDriver, type RegistryLogIns } from "@kip/cloud";
import { dockerConfigCredentials } from "@kip/oci-image";

/** Helpers do not report how long their logins are valid. They are asked again after four hours. */
const helperMs = 4 * 3_600_000;

/**
 * Kip's own sources of registry logins: a file of `docker login` with its credential helpers, then the cloud. Undefined if
 * there is neither.
 *
 * @param options.path where to look for helper programs
 */
export function logInSource(options: {
  readonly dockerConfig: string | undefined;
  readonly driver: CloudDriver;
  readonly clock: Clock;
  readonly path?: string | undefined;
}): RegistryLogIns | undefined {
  const { dockerConfig, driver, clock, path } = options;
  const cloud = givesRegistryLogIns(driver) ? driver : undefined;
  if (dockerConfig === undefined) return cloud;
  const ask = dockerConfigCredentials(dockerConfig, path === undefined ? {} : { path });
  return {
    registryLogIn: async (host, signal) => {
      const found = await ask(host, signal);
      if (!found) return await cloud?.registryLogIn(host, signal);
      const { username, password } = found;
      return {
        username,
        password: password instanceof Secret ? password : new Secret(password),
        expiresAt: new Date(clock.now() + helperMs).toISOString(),
      };
    },
  };
}
