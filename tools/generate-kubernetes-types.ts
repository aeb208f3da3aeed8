// Makes packages/k8s-types/src/gen from the OpenAPI document of the pinned Kubernetes.
//   node tools/generate-kubernetes-types.ts            makes the types from the committed, trimmed document
//   node tools/generate-kubernetes-types.ts --check    fails if they differ from what is committed
//   node tools/generate-kubernetes-types.ts --document swagger.json   trims a new document first
// A new document is api/openapi-spec/swagger.json of the module k8s.io/kubernetes at the version that
// packages/control-plane/src/binaries/pinned-version.ts names.
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { pinned } from "@kip/control-plane";
import { format } from "prettier";
import { trim, type Definitions } from "./kubernetes-types/definitions.ts";
import { printTypes } from "./kubernetes-types/print-types.ts";

/** The types that the code uses directly. Others follow from these. */
const roots = [
  "io.k8s.api.authentication.v1.TokenRequest",
  "io.k8s.api.authentication.v1.TokenReview",
  "io.k8s.api.authorization.v1.SubjectAccessReview",
  "io.k8s.api.certificates.v1.CertificateSigningRequest",
  "io.k8s.api.coordination.v1.Lease",
  "io.k8s.api.core.v1.ConfigMap",
  "io.k8s.api.core.v1.Event",
  "io.k8s.api.core.v1.Namespace",
  "io.k8s.api.core.v1.Node",
  "io.k8s.api.core.v1.PersistentVolume",
  "io.k8s.api.core.v1.PersistentVolumeClaim",
  "io.k8s.api.core.v1.Pod",
  "io.k8s.api.core.v1.Secret",
  "io.k8s.api.core.v1.Service",
  "io.k8s.api.discovery.v1.EndpointSlice",
  "io.k8s.api.networking.v1.NetworkPolicy",
  "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
];

const folder = "packages/k8s-types";
const documentFile = `${folder}/openapi.json`;
const typesFile = `${folder}/src/gen/kubernetes.gen.ts`;

const { values } = parseArgs({
  options: { check: { type: "boolean", default: false }, document: { type: "string" } },
});

if (values.document !== undefined) {
  const { definitions } = JSON.parse(readFileSync(values.document, "utf8")) as {
    readonly definitions: Definitions; // an OpenAPI 2 document
  };
  const trimmed = { kubernetes: pinned.kubernetes, definitions: trim(definitions, roots) };
  writeFileSync(documentFile, `${JSON.stringify(trimmed, undefined, 1)}\n`);
}

const { kubernetes, definitions } = JSON.parse(readFileSync(documentFile, "utf8")) as {
  readonly kubernetes: string; // written above
  readonly definitions: Definitions;
};
const source = `the OpenAPI document of Kubernetes ${kubernetes}`;
const text = await format(printTypes(definitions, source), { parser: "typescript" });

if (values.check) {
  const isPinned = kubernetes === pinned.kubernetes;
  if (!isPinned) console.error(`${documentFile}: is of ${kubernetes}, not of ${pinned.kubernetes}`);
  const isSame = readFileSync(typesFile, "utf8") === text;
  if (!isSame) console.error(`${typesFile}: run node tools/generate-kubernetes-types.ts`);
  process.exitCode = isPinned && isSame ? 0 : 1;
} else writeFileSync(typesFile, text);
