//! Stub of `attached` for a binary without the feature `attach`: uninhabited types.

use std::convert::Infallible;
use std::sync::Arc;

use kube::Client;
use tokio::task::JoinHandle;

use super::config::{AttachArgs, ServeArgs};
use super::{UsageError, features};
use ballast_engine::karmada::Profile;
use ballast_registry::Registry;
use ballast_resource::Kinds;
use ballast_server::Check;
use ballast_watch::{Cache, Writer};
use ballast_worker::events::Sink;

pub struct Attachment(Infallible);

impl Attachment {
    pub async fn from_flags(args: &ServeArgs) -> anyhow::Result<Option<Attachment>> {
        match args.attach.attach {
            None => Ok(None),
            Some(_) => Err(features::ATTACH.refusal("--attach").into()),
        }
    }

    pub fn check(&self, _: &ServeArgs) -> Result<(), UsageError> {
        match self.0 {}
    }

    pub fn client(&self) -> Client {
        match self.0 {}
    }

    pub fn start(self, _: &Kinds, _: &Cache, _: &Writer) -> RunningReflector {
        match self.0 {}
    }
}

pub struct RunningReflector(Infallible);

impl RunningReflector {
    pub fn events(&self, _: &AttachArgs) -> Option<Arc<dyn Sink>> {
        match self.0 {}
    }
}

pub fn attach(
    registry: Registry,
    reflector: Option<RunningReflector>,
) -> (Registry, Option<Progress>, Option<JoinHandle<()>>) {
    match reflector {
        None => (registry, None, None),
        Some(reflector) => match reflector.0 {},
    }
}

#[derive(Clone)]
pub struct Progress(Infallible);

impl Progress {
    pub async fn synced(&self) {
        match self.0 {}
    }
}

pub fn kinds(kinds: &Kinds) -> Kinds {
    Kinds::new(kinds.rows().iter().map(|row| (**row).clone()).collect())
}

pub fn profile(profile: Profile) -> Profile {
    profile
}

pub fn check(progress: Progress) -> Check {
    match progress.0 {}
}
