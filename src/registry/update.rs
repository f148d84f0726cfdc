//! Update: a PUT of a whole object, or of its status. `plan` says what it comes to.

use super::admit::{Admission, Author, Read};
use super::commit;
use super::core::{Registry, Written};
use super::gate::{Caller, Operation, Wish};
use super::locator::Locator;
use super::metadata;
use super::part::Part;
use super::passage::Passage;
use super::plan::{self, Origin};
use super::stored::Stored;
use crate::k8s::{Body, Key, Status, WriteOptions};

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
        let read = admission.read_strictly(body)?;
        let said = read.warnings.clone();
        let written = self.update_read(caller, (target, &key), &admission, read, options).await;
        written.inspect_err(|_| said.iter().for_each(|warning| caller.remarks.warn(warning)))
    }

    async fn update_read(
        &self,
        caller: Caller<'_>,
        (target, key): (&Locator, &Key),
        admission: &Admission<'_>,
        Read { mut object, record, mut warnings, .. }: Read,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        plan::check_place(key, metadata::of_mut(&mut object))?;
        let mut stored = Stored::find(&self.core, key)?;
        plan::check_version(&stored, metadata::of(&object))?;
        plan::check_uid(&stored, metadata::of(&object))?;
        if !target.status {
            (target.row.restore)(&mut object, &stored.tree);
        }
        let operation = Operation::Update;
        let passage = Passage::new(self, caller, target, operation, Wish::Write(options));
        passage.mutate(&mut object, Some(&stored.tree)).await?;
        let part = if target.status { Part::Status } else { Part::Main };
        let manager = options.manager();
        let origin = Origin::Update { manager, record };
        let mut plan = plan::plan(admission, part, &mut stored, object, origin, &mut warnings)?;
        passage.validate_plan(&mut plan, &stored).await?;
        match commit::carry_out(&self.core, stored, plan, options.dry_run).await? {
            Ok(object) => Ok(Written { object, created: false, warnings }),
            Err(rejected) => Err(commit::refusal(key, rejected)),
        }
    }
}
