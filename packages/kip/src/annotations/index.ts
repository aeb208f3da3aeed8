// The table of annotations, from which the documentation is generated.
export { annotationPrefix, podAnnotations } from "./pod-annotations.ts";
