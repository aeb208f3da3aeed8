output "kubeconfig_command" {
  description = "Writes the cluster into your kubeconfig."
  value       = "aws eks update-kubeconfig --region ${local.region} --name ${aws_eks_cluster.this.name}"
}

output "provider_yaml" {
  description = "provider.yaml of kip, for an overlay of deploy/kustomize."
  value = yamlencode({
    apiVersion = "v1"
    cloud = {
      aws = {
        region    = local.region
        subnetIDs = aws_subnet.cells[*].id
      }
    }
    cells = {
      nametag       = var.cluster_name
      bootImageSpec = { imageIDs = var.cell_image_id }
    }
    images = var.efs_enable ? { cache = { nfs = local.efs_share } } : {}
  })
}

output "kip_role_arn" {
  description = "Role of kip's ServiceAccount."
  value       = aws_iam_role.kip.arn
}

output "vpc_id" {
  description = "The VPC."
  value       = aws_vpc.this.id
}

output "cell_subnet_ids" {
  description = "Subnets of cells."
  value       = aws_subnet.cells[*].id
}

output "efs_volume_handle" {
  description = "volumeHandle of deploy/image-cache/overlays/efs/volume.yaml. Null without efs_enable."
  value       = var.efs_enable ? "${aws_efs_file_system.this[0].id}::${aws_efs_access_point.images[0].id}" : null
}

locals {
  # Cells of both zones mount by the first one's address: what they read from the other zone costs traffic between zones.
  efs_share = var.efs_enable ? "${aws_efs_mount_target.this[0].ip_address}:${local.efs_folder}" : ""
}
