import type { ApiClient } from "@kip/k8s-client";

/**
 * Number of write requests that the API server has handled for all clients, by resource and subresource. Leases are left out.
 */
export async function writesByResource(client: ApiClient): Promise<ReadonlyMap<string, number>> {
  const metrics = (
    await client.request("GET", "/metrics", { accept: "text/plain" })
  ).body.toString();
  const totals = new Map<string, number>();
  for (const line of metrics.split("\n")) {
    if (!line.startsWith("apiserver_request_total{")) continue;
    const labels = new Map(
      [...line.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = "", value = ""]) => [name, value]),
    );
    const resource = labels.get("resource") ?? "";
    if (!/^(POST|PUT|PATCH|APPLY|DELETE)$/.test(labels.get("verb") ?? "")) continue;
    if (!/^(pods|cells|events)$/.test(resource)) continue;
    const subresource = labels.get("subresource") ?? "";
    const name = subresource === "" ? resource : `${resource}/${subresource}`;
    const verb = labels.get("verb") ?? "";
    const key = `${name} (${verb})`;
    totals.set(key, (totals.get(key) ?? 0) + Number(line.slice(line.lastIndexOf(" "))));
  }
  return totals;
}
