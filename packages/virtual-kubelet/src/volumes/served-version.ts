import { isNotFound, type ApiClient } from "@kip/k8s-client";

const group = "/apis/certificates.k8s.io";
/** Versions in which the group has unstable resources, the preferred one first. */
const versions = ["v1beta1", "v1alpha1"];

/** The path of the version of `certificates.k8s.io` with this resource. Undefined if the API server has none. */
export async function servedVersion(
  client: ApiClient,
  resource: string,
): Promise<string | undefined> {
  for (const version of versions) {
    const path = `${group}/${version}`;
    try {
      const { resources } = await client.get<ResourceList>(path);
      if (resources?.some(({ name }) => name === resource) === true) return path;
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }
  return undefined;
}

interface ResourceList {
  readonly resources?: readonly { readonly name: string }[];
}
