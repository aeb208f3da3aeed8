import { errorAnswer, type Answer } from "./client-tokens.ts";
import { tagsOf } from "./machines.ts";
import { element, itemsOf, parseXml, setChild, setText, textOf, type XmlElement } from "./xml.ts";

/** Sends a call to moto. */
type Ask = (action: string, parameters: Readonly<Record<string, string>>) => Promise<Answer>;

/**
 * Images with the parameters of their registration. moto only keeps their names, accepts a name twice, and does not tag them.
 */
export class RegisteredImages {
  readonly #requests = new Map<string, URLSearchParams>();
  /** Includes the names that moto is currently asked to register. */
  readonly #names = new Set<string>();
  readonly #ask: Ask;

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  async register(parameters: URLSearchParams): Promise<Answer> {
    const name = parameters.get("Name") ?? "";
    if (this.#names.has(name))
      return errorAnswer("InvalidAMIName.Duplicate", `AMI name ${name} is already in use`);
    this.#names.add(name);
    const description = parameters.get("Description") ?? "";
    const answer = await this.#ask("RegisterImage", { Name: name, Description: description });
    const id = textOf(parseXml(answer.body), "imageId");
    if (answer.status !== 200) {
      this.#names.delete(name);
      return answer;
    }
    this.#requests.set(id, parameters);
    const tags = Object.entries(tagsOf(parameters, "image")).flatMap(([key, value], index) => [
      [`Tag.${index + 1}.Key`, key],
      [`Tag.${index + 1}.Value`, value],
    ]);
    if (tags.length > 0)
      await this.#ask("CreateTags", { "ResourceId.1": id, ...Object.fromEntries(tags) });
    return answer;
  }

  /** Parameters of an image's registration. */
  requestOf(id: string): URLSearchParams | undefined {
    return this.#requests.get(id);
  }

  /** Puts the parameters into moto's response. */
  show(tree: XmlElement): void {
    for (const item of itemsOf(tree, "imagesSet")) {
      const request = this.#requests.get(textOf(item, "imageId"));
      if (!request) continue;
      const device = "BlockDeviceMapping.1";
      setText(item, "architecture", request.get("Architecture") ?? "");
      setText(item, "rootDeviceName", request.get("RootDeviceName") ?? "");
      const mapping = element("item");
      setText(mapping, "deviceName", request.get(`${device}.DeviceName`) ?? "");
      const ebs = element("ebs");
      setText(ebs, "snapshotId", request.get(`${device}.Ebs.SnapshotId`) ?? "");
      setText(ebs, "volumeSize", request.get(`${device}.Ebs.VolumeSize`) ?? "");
      mapping.children.push(ebs);
      const mappings = element("blockDeviceMapping");
      mappings.children.push(mapping);
      setChild(item, mappings);
    }
  }
}
