"""Uses the API server from a pod by the client of PyPI, with what every pod has. Prints a line for each thing that worked."""

import os
import sys

sys.path.insert(0, "/client")
from kubernetes import client, config, watch  # noqa: E402

config.load_incluster_config()
core = client.CoreV1Api()
namespace = os.environ["POD_NAMESPACE"]
names = [pod.metadata.name for pod in core.list_namespaced_pod(namespace).items]
if os.environ["POD_NAME"] in names:
    print("listed itself", flush=True)
maps = core.list_namespaced_config_map(namespace)
print("watches", flush=True)
events = watch.Watch().stream(
    core.list_namespaced_config_map,
    namespace,
    resource_version=maps.metadata.resource_version,
)
for event in events:
    data = event["object"].data or {}
    if "word" in data:
        print("saw", data["word"], flush=True)
