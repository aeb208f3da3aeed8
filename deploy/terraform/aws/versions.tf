terraform {
  # Of OpenTofu and of Terraform.
  required_version = ">= 1.8"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.79, < 7.0"
    }
  }
}
