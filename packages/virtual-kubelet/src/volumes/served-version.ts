import { isNotFound, type ApiClient } from "@kip/k8s-client";

const group = "/apis/certificates.k8s.io";
/** Versions in which the group has resources that are not stable yet, the one that is used first. */
const versions = ["v1beta1", "v1alpha1"];

/** The path of the version of `certificates.k8s.io` that has this resource; undefined if the API server has it in none. */
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
