//! Placement reviews: hypothetical decisions and their reasons. A review changes nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::server::{Server, escaped};
use crate::cli::natural;
use ballast_api::ballast::v1alpha1::{ReviewSpec, ReviewStatus, Share};
use ballast_rebalance::record::listed;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    api_version: &'static str,
    kind: &'static str,
    spec: &'a ReviewSpec,
}

/// Requests a review of the namespace, or of everything if there is none. Also returns the complete
/// response as sent by the server.
pub async fn ask(server: &Server, namespace: Option<&str>, spec: &ReviewSpec) -> anyhow::Result<(ReviewStatus, Value)> {
    let api_version = "ballast.dev/v1alpha1";
    let (path, kind) = match namespace {
        Some(namespace) => (
            format!("/apis/{api_version}/namespaces/{}/localplacementreviews", escaped(namespace)),
            "LocalPlacementReview",
        ),
        None => (format!("/apis/{api_version}/placementreviews"), "PlacementReview"),
    };
    let answer: Value = server.create(&path, &Question { api_version, kind, spec }).await?;
    let status = ReviewStatus::deserialize(&answer["status"])?;
    Ok((status, answer))
}

/// Returns a text such as `member2:2, member10:1`.
pub fn places(shares: &[Share]) -> String {
    let mut shares = shares.to_vec();
    natural::by_name(&mut shares, |share| &share.name);
    listed(&shares).replace(',', ", ")
}
