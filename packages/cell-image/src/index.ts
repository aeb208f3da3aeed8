export {
  buildCellImage,
  readCellImage,
  type BuildCellImageOptions,
  type CellImage,
} from "./build-cell-image.ts";
export { buildDemoImage, type BuildDemoImageOptions, type DemoImage } from "./demo-image.ts";
