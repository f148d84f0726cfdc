//! The estimators in member clusters, as the flags name them (RM14).

use std::sync::Arc;

use super::UsageError;
use super::attached::Attachment;
use super::config::EstimatorArgs;
use ballast_base::clock::Clock;
use ballast_estimator::Services;
use ballast_host::{ExternalNames, Host};
use ballast_scheduler::asking;
use ballast_watch::Cache;

/// Lets all who decide with this cache ask the estimators that the flags name, if they name any.
/// Services are looked for where the objects of Karmada are, or in the host cluster.
pub fn install(
    args: &EstimatorArgs,
    attachment: Option<&Attachment>,
    host: Option<&Host>,
    clock: &Arc<dyn Clock>,
    cache: &Cache,
) -> Result<(), UsageError> {
    let services = match attachment {
        Some(attachment) => Some(ExternalNames::new(attachment.client())),
        None => host.map(Host::external_names),
    };
    let services = services.map(|services| Box::new(services) as Box<dyn Services>);
    args.open(services, clock)?.into_iter().for_each(|estimators| asking::install(cache, estimators));
    Ok(())
}
