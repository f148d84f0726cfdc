//! The admission of one write of a client: when external admission and the validators run, and
//! which objects they see.

use std::sync::Arc;

use serde_json::Value;

use super::core::{Core, Registry};
use super::external_admission::{AdmissionAttributes, Caller, ExternalAdmission, Operation, RequestOptions};
use super::locator::Locator;
use super::metadata::{self, Tree};
use super::stored::Stored;
use super::update_outcome::UpdateOutcome;
use super::validator::Validator;
use ballast_k8s::{Object, Status};

/// The admission of one write. Where a server has no external admission, and a kind no validators,
/// every method succeeds at once.
#[derive(Clone, Copy)]
pub(super) struct AdmissionChain<'a> {
    pub core: &'a Core,
    validators: &'a [Arc<dyn Validator>],
    pub caller: Caller<'a>,
    pub target: &'a Locator,
    pub operation: Operation,
    pub options: RequestOptions<'a>,
}

impl<'a> AdmissionChain<'a> {
    pub fn new(
        registry: &'a Registry,
        caller: Caller<'a>,
        target: &'a Locator,
        operation: Operation,
        options: RequestOptions<'a>,
    ) -> AdmissionChain<'a> {
        let validators = match target.status || operation == Operation::Delete {
            true => &[],
            false => registry.validators.of(target.row.resource),
        };
        AdmissionChain { core: &registry.core, validators, caller, target, operation, options }
    }

    pub fn dry_run(&self) -> bool {
        self.options.dry_run()
    }

    fn attributes<'s>(&'s self, name: &'s str) -> AdmissionAttributes<'s> {
        AdmissionAttributes {
            caller: self.caller,
            row: &self.target.row,
            kinds: &self.core.kinds,
            operation: self.operation,
            namespace: self.target.namespace.as_deref().unwrap_or_default(),
            name: self.target.name.as_deref().unwrap_or(name),
            of_collection: self.target.name.is_none() && self.operation == Operation::Delete,
            subresource: if self.target.status { "status" } else { "" },
            options: self.options,
        }
    }

    fn external(&self) -> Option<&dyn ExternalAdmission> {
        self.core.external_admission.get().map(|external| &**external)
    }

    /// Lets external admission change the object, before it is defaulted and validated.
    pub async fn mutate(&self, object: &mut Tree, old: Option<&Tree>) -> Result<(), Status> {
        let Some(external) = self.external() else { return Ok(()) };
        let name = metadata::text(metadata::of(object), "name").to_owned();
        let attributes = self.attributes(&name);
        if self.operation == Operation::Create {
            external.check_create(&attributes).await?;
        }
        if !external.applies_to(&attributes) {
            return Ok(());
        }
        let before = object.clone();
        external.mutate(&attributes, object, old).await?;
        check_identity(&before, object)?;
        (self.target.row.restore)(object, &before);
        // Managed fields are tracked by the write itself. Fields that no schema knows are dropped,
        // as they are from any client.
        metadata::of_mut(object).remove("managedFields");
        let _unknown_fields = self.target.row.schema.prune(object);
        Ok(())
    }

    /// Lets external admission check the object that would be stored.
    pub async fn validate_external(&self, object: &Tree, old: Option<&Tree>) -> Result<(), Status> {
        let name = metadata::text(metadata::of(object), "name");
        let attributes = self.attributes(name);
        match self.external().filter(|external| external.applies_to(&attributes)) {
            Some(external) => external.validate(&attributes, Some(object), old).await,
            None => Ok(()),
        }
    }

    /// Validates the outcome of an update: by external admission, then by the validators.
    pub async fn validate_update(&self, outcome: &mut UpdateOutcome, stored: &Stored) -> Result<(), Status> {
        match outcome {
            // As upstream, an update that changes nothing is checked, too.
            UpdateOutcome::Unchanged => self.validate_external(&stored.tree, Some(&stored.tree)).await,
            UpdateOutcome::Put(tree) | UpdateOutcome::Remove(tree) => {
                self.validate_external(tree, Some(&stored.tree)).await?;
                self.validate_builtin(tree, Some(&stored.tree)).await
            }
        }
    }

    /// Runs the validators. All other checks have passed before.
    pub async fn validate_builtin(&self, object: &mut Tree, old: Option<&Tree>) -> Result<(), Status> {
        if self.validators.is_empty() {
            return Ok(());
        }
        let name = metadata::text(metadata::of(object), "name").to_owned();
        for validator in self.validators {
            validator.validate(&self.attributes(&name), object, old).await?;
        }
        Ok(())
    }

    /// Lets external admission check a delete. There is nothing to change, but mutating webhooks
    /// may refuse it, too.
    pub async fn delete(&self, object: &Arc<Object>) -> Result<(), Status> {
        let attributes = self.attributes(&object.key.name);
        let Some(external) = self.external().filter(|external| external.applies_to(&attributes)) else { return Ok(()) };
        let stored = Stored::parse(Arc::clone(object))?;
        external.mutate(&attributes, &mut stored.tree.clone(), Some(&stored.tree)).await?;
        external.validate(&attributes, None, Some(&stored.tree)).await
    }
}

/// Refuses a mutation that changed the identity of the object.
fn check_identity(before: &Tree, after: &Tree) -> Result<(), Status> {
    let parts = |object: &Tree| {
        let metadata = metadata::of(object);
        ["name", "namespace", "uid"].map(|part| metadata.get(part).cloned().unwrap_or(Value::Null))
    };
    let is_same = ["kind", "apiVersion"].iter().all(|part| before.get(*part) == after.get(*part));
    match is_same && parts(before) == parts(after) {
        true => Ok(()),
        false => Err(Status::internal("a mutating webhook or policy made another object of it")),
    }
}
