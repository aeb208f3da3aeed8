// The table of annotations, for the documentation that is made from it.
export { annotationPrefix, podAnnotations } from "./pod-annotations.ts";
