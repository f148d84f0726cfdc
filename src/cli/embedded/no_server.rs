//! Stub of the embedded server for a binary without the feature `attach`: it returns an error.

use std::convert::Infallible;

use super::ProfileArgs;
use ballast_node::features;
use ballast_node::kubeconfig::Connected;

pub struct Embedded(Infallible);

impl Embedded {
    pub async fn start(home: Connected, _: ProfileArgs, _: Option<&str>) -> anyhow::Result<Embedded> {
        Err(features::ATTACH.refusal(&format!("{} is a Karmada without Ballast", home.url)).into())
    }

    pub fn connected(&self) -> Connected {
        match self.0 {}
    }

    #[cfg(feature = "page")]
    pub async fn ended(&mut self) -> anyhow::Error {
        match self.0 {}
    }
}
