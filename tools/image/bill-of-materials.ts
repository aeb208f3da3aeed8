// The software bill of materials of an image, as CycloneDX JSON.
import type { LockEntries, NpmClosure } from "./npm-closure.ts";
import type { Architecture, ImageRecipe, LockedPackage } from "./recipe.ts";

/** Options of {@link billOfMaterials}. */
export interface BillOptions {
  /** Name of the image. */
  readonly name: string;
  readonly version: string;
  readonly architecture: Architecture;
  readonly recipe: ImageRecipe;
  readonly debian: readonly LockedPackage[];
  readonly closure: NpmClosure;
  readonly entries: LockEntries;
  /** Seconds since the Unix epoch. */
  readonly epoch: number;
}

interface Component {
  readonly type: "application" | "library" | "platform";
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
  readonly licenses?: readonly object[];
}

/**
 * Lists all packages in an image: npm packages, Node, and Debian packages. The same input results in the same text.
 *
 * @see https://cyclonedx.org/docs/1.6/json/
 */
export function billOfMaterials(options: BillOptions): object {
  const { name, version, epoch } = options;
  const components = [...npmComponents(options), nodeComponent(options), ...debianOnes(options)];
  return {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      timestamp: new Date(epoch * 1000).toISOString(),
      component: { type: "container", "bom-ref": name, name, version },
    },
    components: components.map((each) => ({ "bom-ref": each.purl, ...each })),
  };
}

function npmComponents({ closure, entries }: BillOptions): readonly Component[] {
  const components = new Map<string, Component>();
  for (const folder of [...closure.workspaces, ...closure.packages]) {
    const { name = folder.split("node_modules/").at(-1) ?? "", ...entry } = entries[folder] ?? {};
    const { version = "", integrity, license } = entry;
    const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
    components.set(purl, {
      type: folder.startsWith("apps/") ? "application" : "library",
      name,
      version,
      purl,
      ...(integrity === undefined ? {} : { hashes: [sha512(integrity)] }),
      ...(license === undefined ? {} : { licenses: [{ expression: license }] }),
    });
  }
  return [...components.values()];
}

function nodeComponent({ recipe, architecture }: BillOptions): Component {
  const { package: name, integrity } = recipe.node[architecture];
  const { version } = recipe.node;
  const purl = `pkg:npm/${name}@${version}`;
  return { type: "platform", name: "node", version, purl, hashes: [sha512(integrity)] };
}

function debianOnes({ debian, architecture }: BillOptions): readonly Component[] {
  return debian.map(({ name, version, sha256 }) => ({
    type: "library",
    name,
    version,
    purl: `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${architecture}&distro=debian-12`,
    hashes: [{ alg: "SHA-256", content: sha256 }],
  }));
}

function sha512(integrity: string): { readonly alg: string; readonly content: string } {
  const content = Buffer.from(integrity.replace(/^sha512-/, ""), "base64").toString("hex");
  return { alg: "SHA-512", content };
}
