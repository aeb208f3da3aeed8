# A VPC with two public subnets for the ordinary nodes and two for cells, in two zones. All have public addresses, so there is no NAT
# gateway, which would cost more than the rest of a demo.

data "aws_availability_zones" "available" {
  state            = "available"
  exclude_zone_ids = var.excluded_azs

  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required"]
  }
}

# The provider's: AWS_REGION, if nothing else is said.
data "aws_region" "current" {}

data "aws_partition" "current" {}

locals {
  # Named "name" by version 5 of the provider and "region" by version 6.
  region = data.aws_region.current.id
  zones  = slice(sort(data.aws_availability_zones.available.names), 0, 2)
  tags   = merge({ Project = "kip", Cluster = var.cluster_name }, var.tags)
}

resource "aws_vpc" "this" {
  cidr_block           = var.vpc_cidr
  enable_dns_support   = true
  enable_dns_hostnames = true
  tags                 = merge(local.tags, { Name = var.cluster_name })
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
  tags   = merge(local.tags, { Name = var.cluster_name })
}

resource "aws_subnet" "nodes" {
  count = 2

  vpc_id                  = aws_vpc.this.id
  availability_zone       = local.zones[count.index]
  cidr_block              = cidrsubnet(var.vpc_cidr, 3, count.index)
  map_public_ip_on_launch = true
  tags                    = merge(local.tags, { Name = "${var.cluster_name}-nodes-${count.index}" })
}

# A cell takes two addresses: a quarter of the VPC each.
resource "aws_subnet" "cells" {
  count = 2

  vpc_id            = aws_vpc.this.id
  availability_zone = local.zones[count.index]
  cidr_block        = cidrsubnet(var.vpc_cidr, 2, count.index + 1)
  # By the tag, kip finds them from the VPC alone.
  tags = merge(local.tags, { Name = "${var.cluster_name}-cells-${count.index}", "kip.elotl.co/cells" = "" })
}

resource "aws_route_table" "public" {
  vpc_id = aws_vpc.this.id
  tags   = merge(local.tags, { Name = var.cluster_name })

  lifecycle {
    # kip adds routes to pods that have the annotation pod.elotl.co/cloud-route, where that is allowed.
    ignore_changes = [route]
  }
}

resource "aws_route" "internet" {
  route_table_id         = aws_route_table.public.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this.id
}

resource "aws_route_table_association" "nodes" {
  count = 2

  route_table_id = aws_route_table.public.id
  subnet_id      = aws_subnet.nodes[count.index].id
}

resource "aws_route_table_association" "cells" {
  count = 2

  route_table_id = aws_route_table.public.id
  subnet_id      = aws_subnet.cells[count.index].id
}
