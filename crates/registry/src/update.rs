//! Update: a PUT of a whole object, or of its status. `update_outcome` decides on the write.
//!
//! Members that commit hooks write belong to them (`watch::CommitHook`), so a PUT of a status that
//! differs only in these changes nothing. It succeeds even from an old version: there is no write
//! that it could undo. Karmada's webhook for bindings counts quotas by such PUTs, many at a time,
//! and would reject a placement after a few conflicts (D53).

use serde_json::Value;

use super::admission_chain::AdmissionChain;
use super::admit::{Admission, Author, Read};
use super::commit;
use super::core::{Registry, Written};
use super::external_admission::{Caller, Operation, RequestOptions};
use super::locator::Locator;
use super::metadata::{self, Tree};
use super::newest;
use super::part::Part;
use super::update_outcome::{self, Origin, UpdateOutcome};
use ballast_k8s::{Body, Edit, Key, MemberPath, Status, WriteOptions};

impl Registry {
    pub async fn update(
        &self,
        caller: Caller<'_>,
        target: &Locator,
        body: Body,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        self.allow_write(target, "update")?;
        let key = target.key()?;
        let admission = Admission {
            row: &target.row,
            author: Author::Client,
            field_validation: options.field_validation,
            now: self.core.clock.now(),
        };
        let mut read = admission.read(body)?;
        if !read.inspection.is_empty() {
            let stored = newest::stored(&self.core, &key).await?;
            admission.check_inspection(&mut read, Some(&stored.tree))?;
        }
        let read = admission.check_strict_faults(read)?;
        let said = read.warnings.clone();
        let written = self.update_read(caller, (target, &key), &admission, read, options).await;
        written.inspect_err(|_| said.iter().for_each(|warning| caller.warnings.warn(warning)))
    }

    async fn update_read(
        &self,
        caller: Caller<'_>,
        (target, key): (&Locator, &Key),
        admission: &Admission<'_>,
        Read { mut object, record, mut warnings, .. }: Read,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        update_outcome::check_name_and_namespace(key, metadata::of_mut(&mut object))?;
        let mut stored = newest::stored(&self.core, key).await?;
        let kept = if target.status { self.core.writer.hook_owned_members(key.resource) } else { &[] };
        restore_owned(kept, &mut object, &stored.tree);
        let outdated = match update_outcome::check_version(&stored, metadata::of(&object)) {
            Ok(()) => None,
            Err(conflict) if conflict.code == 409 && changes_no_status(kept, &object, &stored.tree) => Some(conflict),
            Err(refused) => return Err(refused),
        };
        update_outcome::check_uid(&stored, metadata::of(&object))?;
        if !target.status {
            (target.row.restore)(&mut object, &stored.tree);
        }
        let operation = Operation::Update;
        let chain = AdmissionChain::new(self, caller, target, operation, RequestOptions::Write(options));
        chain.mutate(&mut object, Some(&stored.tree), |_| Ok(())).await?;
        let part = if target.status { Part::Status } else { Part::Main };
        let manager = options.manager();
        let origin = Origin::Update { manager, record };
        let mut outcome = update_outcome::decide(admission, part, &mut stored, object, origin, &mut warnings)?;
        // A webhook may have changed it, after all.
        if let (Some(conflict), UpdateOutcome::Put(_) | UpdateOutcome::Remove(_)) = (outdated, &outcome) {
            return Err(conflict);
        }
        chain.validate_update(&mut outcome, &stored).await?;
        match commit::commit_update(&self.core, stored, outcome, options.dry_run).await? {
            Ok(object) => Ok(Written { object, created: false, warnings }),
            Err(rejected) => Err(commit::refusal(key, rejected)),
        }
    }
}

/// Restores the members that only commit hooks write. A status that is no object is left for the
/// schema to reject.
fn restore_owned(kept: &[MemberPath], object: &mut Tree, stored: &Tree) {
    let is_status = object.get("status").is_some_and(Value::is_object);
    for member in kept.iter().filter(|_| is_status) {
        let (first, rest) = member.split_first().expect("a member has a name");
        let value = rest.iter().try_fold(stored.get(*first), |value, name| Some(value?.get(*name)));
        Edit::to(member, value.flatten().cloned()).apply(object);
    }
}

/// Returns whether the status is the stored one, apart from the members that commit hooks write.
fn changes_no_status(kept: &[MemberPath], object: &Tree, stored: &Tree) -> bool {
    !kept.is_empty() && object.get("status") == stored.get("status")
}
