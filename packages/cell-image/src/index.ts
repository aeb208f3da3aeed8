export { hostAptSources } from "./apt-sources.ts";
export { markImageUsed } from "./build-cache.ts";
export { buildCellImage, type BuildCellImageOptions } from "./build-cell-image.ts";
export { buildBootDisk, type BootDisk, type BuildBootDiskOptions } from "./disk/build-boot-disk.ts";
export { readCellImage, type CellImage } from "./cell-image.ts";
export { buildDemoImage, type BuildDemoImageOptions, type DemoImage } from "./demo-image.ts";
export { CellImageError, type CellImageErrorCode } from "./errors.ts";
export { buildPackageTree, type BuildPackageTreeOptions } from "./package-tree.ts";
export { defaultSources } from "./recipe.ts";
