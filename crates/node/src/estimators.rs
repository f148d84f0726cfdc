//! Installs the estimators in member clusters that the flags configure (RM14).

use std::sync::Arc;

use super::UsageError;
use super::attached::Attachment;
use super::config::EstimatorArgs;
use ballast_base::clock::Clock;
use ballast_estimator::Services;
use ballast_host::{ExternalNames, Host};
use ballast_scheduler::asking;
use ballast_watch::Cache;

/// Installs the configured estimators, if there are any, for all users of this cache. Services are
/// looked up in the attached Karmada, or else in the host cluster.
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
