import { constants, generateKeyPair, sign, type KeyObject } from "node:crypto";
import { promisify } from "node:util";
import { unresolved } from "../references/reference.ts";

/** A pod's key, in the forms that its certificate request needs. */
export interface PodKey {
  /** PKCS #8, PEM. */
  readonly privatePem: string;
  /** PKIX, base64. */
  readonly publicKey: string;
  /** The pod's UID, signed with the key, base64. */
  readonly proof: string;
  /** A PKCS #10 request without a name, signed with the key, which contains both. Base64. */
  readonly request: string;
}

const generate = promisify(generateKeyPair);

/**
 * Creates a key.
 *
 * @param type `RSA3072`, `RSA4096`, `ECDSAP256`, `ECDSAP384`, `ECDSAP521` or `ED25519`
 * @throws {VirtualKubeletError} `VK_UNRESOLVED` for another type
 */
export async function createPodKey(type: string, podUid: string): Promise<PodKey> {
  const { publicKey, privateKey } = await pairOf(type);
  const uid = Buffer.from(podUid);
  const publicDer = publicKey.export({ type: "spki", format: "der" });
  return {
    privatePem: String(privateKey.export({ type: "pkcs8", format: "pem" })),
    publicKey: publicDer.toString("base64"),
    proof: signed(uid, privateKey).toString("base64"),
    request: signingRequest(publicDer, privateKey).toString("base64"),
  };
}

interface Pair {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

async function pairOf(type: string): Promise<Pair> {
  switch (type) {
    case "RSA3072":
    case "RSA4096":
      return await generate("rsa", { modulusLength: Number(type.slice(3)) });
    case "ECDSAP256":
    case "ECDSAP384":
    case "ECDSAP521":
      return await generate("ec", { namedCurve: `P-${type.slice(-3)}` });
    case "ED25519":
      return await generate("ed25519");
    default:
      throw unresolved(`unknown key type "${type}"`);
  }
}

function signed(data: Buffer, key: KeyObject): Buffer {
  if (key.asymmetricKeyType === "ed25519") return sign(null, data, key);
  if (key.asymmetricKeyType === "ec") return sign("sha256", data, key);
  return sign("sha256", data, { key, padding: constants.RSA_PKCS1_PSS_PADDING });
}

/** Contains version 0, no name, the key, and no attributes, followed by the signature algorithm and the signature. */
function signingRequest(publicDer: Buffer, key: KeyObject): Buffer {
  const info = der(0x30, Buffer.from([2, 1, 0]), der(0x30), publicDer, der(0xa0));
  const kind = key.asymmetricKeyType ?? "";
  const algorithm = Buffer.from(signatureAlgorithms.get(kind) ?? "", "hex");
  const signature = sign(kind === "ed25519" ? null : "sha256", info, key);
  return der(0x30, info, algorithm, der(0x03, Buffer.from([0]), signature));
}

/** Ed25519, ecdsa-with-SHA256 and sha256WithRSAEncryption in DER. */
const signatureAlgorithms: ReadonlyMap<string, string> = new Map([
  ["ed25519", "300506032b6570"],
  ["ec", "300a06082a8648ce3d040302"],
  ["rsa", "300d06092a864886f70d01010b0500"],
]);

/** A DER value: tag, length and content of at most 65,535 bytes. */
function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
