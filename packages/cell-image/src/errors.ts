import { CodedError } from "@kip/base";

export type CellImageErrorCode =
  /** A step of an image build failed. The message contains its last lines. */
  | "CELL_IMAGE_BUILD_FAILED"
  /** Only root can build images. */
  | "CELL_IMAGE_NOT_ROOT"
  /** A program for building images is not installed. */
  | "CELL_IMAGE_TOOLS_MISSING";

/** An image cannot be built. */
export class CellImageError extends CodedError<CellImageErrorCode> {
  override readonly name = "CellImageError";
}
