//! Flags of the audit log, with kube-apiserver's names.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AuditArgs {
    /// Write an audit log to this file; `-` is standard output
    #[arg(long, env = "BALLAST_AUDIT_LOG_PATH")]
    pub audit_log_path: Option<PathBuf>,

    /// Audit policy: a Policy of audit.k8s.io/v1. Default: the metadata of every request
    #[arg(long, env = "BALLAST_AUDIT_POLICY_FILE", requires = "audit_log_path")]
    pub audit_policy_file: Option<PathBuf>,

    /// Size in megabytes at which the file is rotated; 0 means never
    #[arg(long, env = "BALLAST_AUDIT_LOG_MAXSIZE", default_value_t = 100, allow_negative_numbers = true)]
    pub audit_log_maxsize: u32,

    /// How many rotated files are kept; 0 keeps all
    #[arg(long, env = "BALLAST_AUDIT_LOG_MAXBACKUP", default_value_t = 10, allow_negative_numbers = true)]
    pub audit_log_maxbackup: u32,

    /// How many days rotated files are kept; 0 keeps them for ever
    #[arg(long, env = "BALLAST_AUDIT_LOG_MAXAGE", default_value_t = 0, allow_negative_numbers = true)]
    pub audit_log_maxage: u32,
}
