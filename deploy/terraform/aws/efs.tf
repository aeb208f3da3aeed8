# A file system for the image cache: docs/image-cache.md

locals {
  efs_count = var.efs_enable ? 1 : 0
  # The user of kip's container image.
  efs_user   = 65532
  efs_folder = "/images"
}

resource "aws_security_group" "efs" {
  count = local.efs_count

  name_prefix = "${var.cluster_name}-efs-"
  description = "NFS for the nodes and cells of ${var.cluster_name}"
  vpc_id      = aws_vpc.this.id
  tags        = local.tags
}

resource "aws_vpc_security_group_ingress_rule" "nfs" {
  count = local.efs_count

  security_group_id = aws_security_group.efs[0].id
  description       = "NFS from the VPC"
  cidr_ipv4         = aws_vpc.this.cidr_block
  ip_protocol       = "tcp"
  from_port         = 2049
  to_port           = 2049
  tags              = local.tags
}

resource "aws_efs_file_system" "this" {
  count = local.efs_count

  encrypted                       = true
  performance_mode                = var.efs_performance_mode
  throughput_mode                 = var.efs_throughput_mode
  provisioned_throughput_in_mibps = var.efs_throughput_mode == "provisioned" ? var.efs_provisioned_throughput_in_mibps : null
  tags                            = merge(local.tags, { Name = "${var.cluster_name}-images" })
}

resource "aws_efs_mount_target" "this" {
  count = var.efs_enable ? 2 : 0

  file_system_id  = aws_efs_file_system.this[0].id
  subnet_id       = aws_subnet.nodes[count.index].id
  security_groups = [aws_security_group.efs[0].id]
}

resource "aws_efs_access_point" "images" {
  count = local.efs_count

  file_system_id = aws_efs_file_system.this[0].id
  tags           = local.tags

  posix_user {
    uid = local.efs_user
    gid = local.efs_user
  }

  root_directory {
    path = local.efs_folder

    creation_info {
      owner_uid   = local.efs_user
      owner_gid   = local.efs_user
      permissions = "0755"
    }
  }
}

resource "aws_eks_addon" "efs" {
  count = local.efs_count

  cluster_name = aws_eks_cluster.this.name
  addon_name   = "aws-efs-csi-driver"
  tags         = local.tags

  depends_on = [aws_eks_node_group.this]
}
