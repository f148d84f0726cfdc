//! Flags of a server that is attached to a Karmada: `--attach`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

/// Flags about the Karmada that stores clusters, bindings and policies instead of Ballast.
#[derive(Args, Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AttachArgs {
    /// Kubeconfig of a Karmada that keeps storing clusters, bindings and policies. Ballast
    /// schedules the bindings that name it (--scheduler-name) and writes the placements there;
    /// Karmada's controllers do the rest. It excludes `--beneath-karmada`
    #[arg(long, env = "BALLAST_ATTACH", value_name = "FILE")]
    pub attach: Option<PathBuf>,

    /// Post events about the decisions for its bindings to that Karmada
    #[arg(long, env = "BALLAST_ATTACH_EVENTS", default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    pub attach_events: bool,
}
