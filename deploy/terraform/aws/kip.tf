# What kip may do: the policy that "kip iam print" prints for these subnets, for kip's ServiceAccount alone.

data "aws_iam_policy_document" "kip_trust" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]

    principals {
      type        = "Service"
      identifiers = ["pods.eks.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "kip" {
  name_prefix        = "${substr(var.cluster_name, 0, 20)}-kip-"
  assume_role_policy = data.aws_iam_policy_document.kip_trust.json
  tags               = local.tags

  lifecycle {
    precondition {
      condition     = data.aws_partition.current.partition == "aws"
      error_message = "The policy names resources of the partition aws: regions of China and GovCloud are in others."
    }
  }
}

resource "aws_iam_role_policy" "kip" {
  name = "kip"
  role = aws_iam_role.kip.id
  policy = templatefile("${path.module}/kip-policy.json.tftpl", {
    region   = local.region
    subnet_a = aws_subnet.cells[0].id
    subnet_b = aws_subnet.cells[1].id
  })
}

data "aws_iam_policy_document" "pass_roles" {
  count = length(var.pass_role_arns) == 0 ? 0 : 1

  statement {
    actions   = ["iam:PassRole"]
    resources = var.pass_role_arns

    condition {
      test     = "StringEquals"
      variable = "iam:PassedToService"
      values   = ["ec2.amazonaws.com"]
    }
  }
}

resource "aws_iam_role_policy" "pass_roles" {
  count = length(var.pass_role_arns) == 0 ? 0 : 1

  name   = "pass-roles"
  role   = aws_iam_role.kip.id
  policy = data.aws_iam_policy_document.pass_roles[0].json
}

# The agent gives pods the credentials of the role that is associated with their ServiceAccount.
resource "aws_eks_addon" "pod_identity" {
  cluster_name = aws_eks_cluster.this.name
  addon_name   = "eks-pod-identity-agent"
  tags         = local.tags

  depends_on = [aws_eks_node_group.this]
}

resource "aws_eks_pod_identity_association" "kip" {
  cluster_name    = aws_eks_cluster.this.name
  namespace       = var.kip_namespace
  service_account = "kip"
  role_arn        = aws_iam_role.kip.arn
  tags            = local.tags
}

# Pods on cells reach pods on ordinary nodes, such as the cluster's DNS. The group of the cells is kip's own, which lets in all of the VPC.
resource "aws_vpc_security_group_ingress_rule" "from_vpc" {
  security_group_id = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
  description       = "Cells and their pods"
  cidr_ipv4         = aws_vpc.this.cidr_block
  ip_protocol       = "-1"
  tags              = local.tags
}
