//! The admission of one write of a client: when external admission and the validators run, and on
//! which objects.

use std::sync::Arc;

use serde_json::Value;

use super::core::{Core, Registry};
use super::external_admission::{AdmissionAttributes, Caller, ExternalAdmission, Operation, RequestOptions};
use super::locator::Locator;
use super::metadata::{self, Tree};
use super::metadata_types::{check_types, expect_object};
use super::stored::Stored;
use super::update_outcome::UpdateOutcome;
use super::validator::Validator;
use ballast_k8s::{FieldErrors, FieldPath, Object, Status};
use ballast_resource::ResourceKind;

/// The admission of one write. Without external admission and validators, every method succeeds at
/// once.
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
            name: match (&self.target.name, self.operation) {
                (Some(name), _) => name,
                // As upstream, the delete of a collection names none of its objects.
                (None, Operation::Delete) => "",
                (None, _) => name,
            },
            subresource: if self.target.status { "status" } else { "" },
            options: self.options,
        }
    }

    fn external(&self) -> Option<&dyn ExternalAdmission> {
        self.core.external_admission.get().map(|external| &**external)
    }

    /// Lets external admission change the object, before it is defaulted and validated.
    /// `set_managed` sets the managed fields that admission receives, as in kube-apiserver.
    pub async fn mutate(
        &self,
        object: &mut Tree,
        old: Option<&Tree>,
        set_managed: impl FnOnce(&mut Tree) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let Some(external) = self.external() else { return Ok(()) };
        let name = metadata::text(metadata::of(object), "name").to_owned();
        let attributes = self.attributes(&name);
        if self.operation == Operation::Create {
            external.check_create(&attributes).await?;
        }
        if !external.applies_to(&attributes) {
            return Ok(());
        }
        // As upstream, admission sees an object with its defaults.
        self.target.row.schema.default(object);
        let before = object.clone();
        set_managed(object)?;
        external.mutate(&attributes, object, old).await?;
        check_type(&self.target.row, &before, object)?;
        self.check_metadata(&before, object)?;
        (self.target.row.restore)(object, &before);
        // The write itself tracks managed fields. Unknown fields are dropped, as from any client.
        metadata::of_mut(object).remove("managedFields");
        let _unknown_fields = self.target.row.schema.prune(object);
        Ok(())
    }

    /// Checks metadata after a mutation. The name may change until the object exists; later, and
    /// for the other members, the rules of an update decide.
    fn check_metadata(&self, before: &Tree, object: &mut Tree) -> Result<(), Status> {
        if let Some(metadata) = object.get_mut("metadata") {
            expect_object(metadata).and_then(check_types).map_err(Status::internal)?;
        }
        let namespace = metadata::text(metadata::of(before), "namespace");
        let metadata = metadata::of_mut(object);
        match metadata::text(metadata, "namespace") {
            own if own == namespace || self.operation != Operation::Create => Ok(()),
            "" => {
                metadata.insert("namespace".to_owned(), namespace.into());
                Ok(())
            }
            _ => Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            )),
        }
    }

    /// Returns whether external admission will check the object.
    pub fn is_admitted(&self, object: &Tree) -> bool {
        let name = metadata::text(metadata::of(object), "name");
        self.external().is_some_and(|external| external.applies_to(&self.attributes(name)))
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
    /// may reject it, too.
    pub async fn delete(&self, object: &Arc<Object>) -> Result<(), Status> {
        let attributes = self.attributes(&object.key.name);
        let Some(external) = self.external().filter(|external| external.applies_to(&attributes)) else { return Ok(()) };
        let stored = Stored::parse(Arc::clone(object))?;
        external.mutate(&attributes, &mut stored.tree.clone(), Some(&stored.tree)).await?;
        external.validate(&attributes, None, Some(&stored.tree)).await
    }
}

impl Registry {
    /// Lets external admission check a request for the subresource `proxy` of an object, before the
    /// object is looked up (CP6). `path` is the rest of the path. Mutating webhooks may reject it,
    /// but change nothing.
    pub async fn admit_connect(&self, caller: Caller<'_>, target: &Locator, path: &str) -> Result<(), Status> {
        let Some(external) = self.core.external_admission.get() else { return Ok(()) };
        let row = &*target.row;
        let attributes = AdmissionAttributes {
            caller,
            row,
            kinds: &self.core.kinds,
            operation: Operation::Connect,
            namespace: target.namespace.as_deref().unwrap_or_default(),
            name: target.name.as_deref().unwrap_or_default(),
            subresource: "proxy",
            options: RequestOptions::None,
        };
        if !external.applies_to(&attributes) {
            return Ok(());
        }
        let kind = format!("{}ProxyOptions", row.kind);
        let options = [("apiVersion", row.api_version()), ("kind", kind), ("path", path.to_owned())];
        let mut options: Tree =
            options.map(|(name, value)| (name.to_owned(), Value::from(value))).into_iter().collect();
        external.mutate(&attributes, &mut options, None).await?;
        external.validate(&attributes, Some(&options), None).await
    }
}

/// Rejects a mutation that changed the version or kind of the object.
fn check_type(row: &ResourceKind, before: &Tree, after: &Tree) -> Result<(), Status> {
    if before.get("apiVersion") != after.get("apiVersion") {
        return Err(Status::internal("a mutating webhook or policy changed the apiVersion of the object"));
    }
    match metadata::text(after, "kind") {
        "" => Err(Status::internal("a mutating webhook or policy removed the kind of the object")),
        kind if kind != row.kind => {
            let mut errors = FieldErrors::default();
            errors.invalid(&FieldPath::new("kind"), kind, format!("must be {}", row.kind));
            Err(Status::invalid(row.group, kind, metadata::text(metadata::of(after), "name"), &errors))
        }
        _ => Ok(()),
    }
}
