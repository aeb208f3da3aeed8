/** An element of EC2's response. Text keeps its encoding. */
export interface XmlElement {
  readonly name: string;
  readonly attributes: string;
  readonly children: XmlElement[];
  text: string;
}

/** Parses moto's XML, which only has elements and text. */
export function parseXml(source: string): XmlElement {
  const root = element("");
  const open = [root];
  for (const [, closing, name = "", attributes = "", empty, text] of source.matchAll(
    /<(?:\?[^>]*|(\/?)([\w:]+)((?:\s[^>/]*)?(?:"[^"]*")?)(\/?))>|([^<]+)/g,
  )) {
    const current = open.at(-1) ?? root;
    if (text !== undefined) current.text += text;
    else if (closing === "/") open.pop();
    else if (name !== "") {
      const child = element(name, attributes);
      current.children.push(child);
      if (empty !== "/") open.push(child);
    }
  }
  return root.children[0] ?? root;
}

export function printXml({ name, attributes, children, text }: XmlElement): string {
  const content = children.length > 0 ? children.map(printXml).join("") : text;
  return `<${name}${attributes}>${content}</${name}>`;
}

export function element(name: string, attributes = "", text = ""): XmlElement {
  return { name, attributes, children: [], text };
}

export function childOf(parent: XmlElement | undefined, name: string): XmlElement | undefined {
  return parent?.children.find((child) => child.name === name);
}

export function textOf(parent: XmlElement | undefined, name: string): string {
  return childOf(parent, name)?.text ?? "";
}

/** The items of a list such as `reservationSet`. */
export function itemsOf(parent: XmlElement | undefined, name: string): readonly XmlElement[] {
  return childOf(parent, name)?.children ?? [];
}

/** Sets the text of a child. Adds the child if it is missing. */
export function setText(parent: XmlElement, name: string, text: string): void {
  let child = childOf(parent, name);
  if (!child) parent.children.push((child = element(name)));
  child.text = text;
}

/** Replaces a child. */
export function setChild(parent: XmlElement, child: XmlElement): void {
  const at = parent.children.findIndex(({ name }) => name === child.name);
  if (at >= 0) parent.children[at] = child;
  else parent.children.push(child);
}
