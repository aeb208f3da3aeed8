variable "cluster_name" {
  description = "Name of the cluster, and the beginning of the names of all that is made for it."
  type        = string
  default     = "vk"

  validation {
    condition     = can(regex("^[a-zA-Z0-9][a-zA-Z0-9-]{0,39}$", var.cluster_name))
    error_message = "At most 40 letters, digits and hyphens are expected, the first one not a hyphen."
  }
}

variable "vpc_cidr" {
  description = "Addresses of the VPC. Four subnets are made of it, so a /24 is the smallest that has room for cells."
  type        = string
  default     = "10.0.0.0/16"

  validation {
    condition     = can(cidrsubnet(var.vpc_cidr, 3, 7))
    error_message = "A range of IPv4 addresses is expected, for example 10.0.0.0/16."
  }
}

variable "service_cidr" {
  description = "Addresses of Services. They must not be in the VPC."
  type        = string
  default     = "10.96.0.0/12"
}

variable "excluded_azs" {
  description = "IDs of availability zones that are not used: EKS has none of its control planes in use1-az3."
  type        = list(string)
  default     = ["use1-az3"]
}

variable "k8s_version" {
  description = "Version of Kubernetes, such as 1.34. Null: the newest that EKS makes clusters of."
  type        = string
  default     = null
}

variable "api_cidrs" {
  description = "Addresses from which the API server may be used besides those of the VPC. Who gets in is still a matter of log-in."
  type        = list(string)
  default     = ["0.0.0.0/0"]
}

variable "node_instance_type" {
  description = "Type of the ordinary nodes, on which kip itself and the cluster's DNS run. Pods of the virtual node are not on them."
  type        = string
  default     = "t3.medium"
}

variable "node_count" {
  description = "Number of ordinary nodes. With two, the replicas of kip are apart."
  type        = number
  default     = 2

  validation {
    condition     = var.node_count >= 1 && floor(var.node_count) == var.node_count
    error_message = "A whole number of nodes is expected, one at least."
  }
}

variable "node_disk_size" {
  description = "Disk of an ordinary node, GiB."
  type        = number
  default     = 20
}

variable "kip_namespace" {
  description = "Namespace of kip's ServiceAccount, which is called kip."
  type        = string
  default     = "kip-system"
}

variable "cell_image_id" {
  description = "AMI that cells boot. It only goes into the output provider_yaml."
  type        = string
  default     = "ami-0123456789abcdef0"
}

variable "pass_role_arns" {
  description = "Roles that instance profiles of cells may have. Everyone who may create pods on kip's node may use them."
  type        = list(string)
  default     = []
}

variable "efs_enable" {
  description = "Whether a file system for the image cache is made."
  type        = bool
  default     = false
}

variable "efs_performance_mode" {
  description = "generalPurpose or maxIO."
  type        = string
  default     = "generalPurpose"
}

variable "efs_throughput_mode" {
  description = "bursting, elastic or provisioned."
  type        = string
  default     = "bursting"
}

variable "efs_provisioned_throughput_in_mibps" {
  description = "Throughput of the mode provisioned, MiB/s. 0 in the other modes."
  type        = number
  default     = 0
}

variable "tags" {
  description = "Tags of all that is made."
  type        = map(string)
  default     = {}
}
