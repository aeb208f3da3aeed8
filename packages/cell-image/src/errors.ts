import { CodedError } from "@kip/base";

export type CellImageErrorCode =
  /** A step of an image's build failed; its last lines are in the message. */
  | "CELL_IMAGE_BUILD_FAILED"
  /** Images are built by root only. */
  | "CELL_IMAGE_NOT_ROOT"
  /** A program that builds images is not installed. */
  | "CELL_IMAGE_TOOLS_MISSING";

/** An image that cannot be built. */
export class CellImageError extends CodedError<CellImageErrorCode> {
  override readonly name = "CellImageError";
}
